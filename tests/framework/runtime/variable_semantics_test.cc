// The values of variables that a step updates, as the step sees them, on one device and on several.
#include <limits>

#include "ops/collective.h"
#include "ops/nn.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The device that holds the variables, and the one that reads them.
struct Where {
  const char *devices, *variable, *reader;
};

class VariableSemanticsTest : public SessionFixture, public testing::WithParamInterface<Where> {
 protected:
  VariableSemanticsTest() { Open(GetParam().devices); }
  Scope reader() const { return root_.Device(GetParam().reader); }
  Scope variable() const { return root_.Device(GetParam().variable); }

  const Variable v_ = Counter(variable(), "v", 1);
};

TEST_P(VariableSemanticsTest, AReadSeesTheValueBeforeTheUpdate) {
  Initialize();
  const Output update = ops::AssignAdd(variable(), v_, ops::Const(variable(), 10.0f));
  const Output read = ops::Scale(reader(), v_, 2);
  EXPECT_THAT(Scalars({read}, {update.node}), ElementsAre(2));
  EXPECT_THAT(Scalars({read}, {update.node}), ElementsAre(22));
  EXPECT_EQ(ValueOf(v_), 21);
}

TEST_P(VariableSemanticsTest, AReadAfterAnUpdateSeesIt) {
  Initialize();
  const Output before = ops::Scale(reader(), v_, 2);
  const Output update = ops::AssignAdd(variable(), v_, ops::Const(variable(), 10.0f));
  const Output after = ops::Scale(reader().ControlDependencies({update}), v_, 2);
  EXPECT_THAT(Scalars({before, after}), ElementsAre(2, 22));
  EXPECT_THAT(Scalars({after, before}), ElementsAre(42, 22));
}

TEST_P(VariableSemanticsTest, AReadAfterAnUpdateByDataSeesIt) {
  Initialize();
  const Output update = ops::AssignAdd(variable(), v_, ops::Const(variable(), 10.0f));
  const Output sum = ops::Add(reader(), ops::Scale(reader(), update, 100), v_);
  EXPECT_THAT(Scalars({sum}), ElementsAre(1111));
}

TEST_P(VariableSemanticsTest, ACollectiveAfterAnUpdateByDataSeesIt) {
  Initialize();
  const Output update = ops::AssignAdd(variable(), v_, ops::Const(variable(), 10.0f));
  const Output after = ops::Scale(reader(), update, 100), zero = ops::Const(root_, 0.0f);
  const Output before = ops::Scale(reader(), v_, 1000);
  const auto first = ops::AllReduceSum(reader(), {.group = "g", .rank = 0, .size = 2}, {after, v_});
  // The other rank reads the variable too, and not after its update.
  const auto second = ops::AllReduceSum(variable(), {.group = "g", .rank = 1, .size = 2}, {zero, v_});
  EXPECT_THAT(Scalars({first[0], first[1], second[1], before}), ElementsAre(1100, 12, 12, 1000));
}

TEST_P(VariableSemanticsTest, AReadAfterAGroupSeesAllOfIt) {
  const Variable w = Counter(variable(), "w", 2);
  Initialize();
  const Node* both = ops::Group(root_, {ops::AssignAdd(variable(), v_, ops::Const(variable(), 10.0f)),
                                        ops::AssignSub(variable(), w, ops::Const(variable(), 10.0f))});
  const Output sum = ops::Add(reader().ControlDependencies({both}), v_, w);
  const Output before = ops::Add(reader(), v_, w);
  EXPECT_THAT(Scalars({sum, before}), ElementsAre(3, 3));
  EXPECT_EQ(ValueOf(w), -8);
}

TEST_P(VariableSemanticsTest, AFetchSeesTheValueBeforeTheUpdate) {
  Initialize();
  const Output update = ops::AssignAdd(variable(), v_, ops::Const(variable(), 10.0f));
  EXPECT_THAT(Scalars({v_.value(), update}), ElementsAre(1, 11));
  EXPECT_THAT(Scalars({update, v_.value()}), ElementsAre(21, 11));
  EXPECT_THAT(Scalars({ops::Identity(root_, v_)}, {update.node}), ElementsAre(21));
}

TEST_P(VariableSemanticsTest, ReadVariableIsACopy) {
  Initialize();
  const Output read = ops::ReadVariable(reader(), v_);
  const Output update = ops::AssignAdd(variable().ControlDependencies({read}), v_, ops::Const(variable(), 10.0f));
  const Output later = ops::Scale(reader().ControlDependencies({update}), read, 1);
  EXPECT_THAT(Scalars({later}), ElementsAre(1));
}

TEST_P(VariableSemanticsTest, TheOutputOfAnAssignIsItsValue) {
  const Output assign = ops::Assign(variable(), v_, ops::Const(variable(), 7.0f));
  const Output square = ops::Square(reader(), assign);
  // v was never initialized and need not be: it is assigned first.
  EXPECT_THAT(Scalars({square, assign}), ElementsAre(49, 7));
  EXPECT_EQ(ValueOf(v_), 7);
}

TEST_P(VariableSemanticsTest, UpdatesWithoutAnOrderKeepThatOfAdding) {
  Initialize();
  const Output a = ops::AssignAdd(variable(), v_, ops::Const(variable(), 10.0f));
  const Output b = ops::Assign(variable(), v_, ops::Const(variable(), 5.0f));
  const Output c = ops::AssignAdd(variable(), v_, ops::Const(variable(), 100.0f));
  EXPECT_THAT(Scalars({c, b, a, v_.value()}), ElementsAre(105, 5, 11, 1));
  EXPECT_EQ(ValueOf(v_), 105);
}

TEST_P(VariableSemanticsTest, UpdatesInTheOrderOfDependencies) {
  Initialize();
  const Output first = ops::Assign(variable(), v_, ops::Const(variable(), 5.0f));
  const Output second = ops::AssignAdd(variable().ControlDependencies({first}), v_, ops::Const(variable(), 1.0f));
  const Output third = ops::Assign(variable().ControlDependencies({second}), v_, ops::Scale(variable(), second, 2));
  EXPECT_THAT(Scalars({}, {third.node}), ElementsAre());
  EXPECT_EQ(ValueOf(v_), 12);
}

TEST_P(VariableSemanticsTest, TwoVariablesAreSwapped) {
  const Variable w = Counter(reader(), "w", 2);
  Initialize();
  const Output to_v = ops::Assign(variable(), v_, w), to_w = ops::Assign(reader(), w, v_);
  for (int turn = 1; turn <= 3; ++turn) {
    EXPECT_THAT(Scalars({}, {to_v.node, to_w.node}), ElementsAre());
    EXPECT_EQ(ValueOf(v_), turn % 2 == 1 ? 2 : 1) << turn;
    EXPECT_EQ(ValueOf(w), turn % 2 == 1 ? 1 : 2) << turn;
  }
}

TEST_P(VariableSemanticsTest, VariablesAreSwappedAfterAnUpdate) {
  const Variable u = Counter(variable(), "u", 2);
  Initialize();
  const Output set = ops::Assign(variable(), u, ops::Const(variable(), 100.0f));
  const Scope after = variable().ControlDependencies({set});
  const Output v_from_u = ops::Assign(after, v_, u), u_from_v = ops::Assign(after, u, v_);
  const Output before = ops::Scale(reader(), u, 1000);
  EXPECT_THAT(Scalars({before}, {v_from_u.node, u_from_v.node}), ElementsAre(2000));
  EXPECT_EQ(ValueOf(v_), 100);
  EXPECT_EQ(ValueOf(u), 1);
}

TEST_P(VariableSemanticsTest, ThreeVariablesGoRound) {
  const Variable w = Counter(reader(), "w", 2), u = Counter(variable(), "u", 3);
  Initialize();
  const Node* rotate =
      ops::Group(root_, {ops::Assign(variable(), v_, w), ops::Assign(reader(), w, u), ops::Assign(variable(), u, v_)});
  EXPECT_THAT(Scalars({v_.value(), w.value(), u.value()}, {rotate}), ElementsAre(1, 2, 3));
  EXPECT_THAT(Scalars({v_.value(), w.value(), u.value()}), ElementsAre(2, 3, 1));
}

TEST_P(VariableSemanticsTest, CountersWrapAround) {
  const int32_t largest = std::numeric_limits<int32_t>::max();
  const Variable n = GetVariable(variable(), "n", {}, ConstantInitializer(0), {.dtype = DType::kInt32});
  const Output set = ops::Assign(variable(), n, ops::Const(variable(), largest));
  const Output one = ops::Const(variable(), int32_t{1});
  const Output up = ops::AssignAdd(variable().ControlDependencies({set}), n, one);
  ASSERT_OK_AND_ASSIGN(auto values, session_->Run({}, {up}));
  EXPECT_EQ(values[0].scalar<int32_t>(), -largest - 1);
}

TEST_P(VariableSemanticsTest, AVariableFromItself) {
  Initialize();
  const Output doubled = ops::AssignAdd(variable(), v_, v_);
  EXPECT_THAT(Scalars({doubled, v_.value()}), ElementsAre(2, 1));
  const Output scaled = ops::Assign(variable(), v_, ops::Scale(reader(), v_, 10));
  EXPECT_THAT(Scalars({scaled}), ElementsAre(20));
}

TEST_P(VariableSemanticsTest, AnUninitializedVariable) {
  const Output read = ops::Scale(reader(), v_, 2);
  EXPECT_THAT(session_->Run({read}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("Attempting to use uninitialized value v; run its initializer first")));
  EXPECT_EQ(session_->Run({ops::AssignAdd(variable(), v_, ops::Const(variable(), 1.0f))}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  Initialize();
  EXPECT_THAT(Scalars({read}), ElementsAre(2));
}

TEST_P(VariableSemanticsTest, TheShapeOfAnUninitializedVariableIsKnown) {
  const Output zeros = ops::ZerosLike(reader(), v_);
  EXPECT_THAT(Scalars({zeros}), ElementsAre(0));
}

TEST_P(VariableSemanticsTest, ConditionsOfScopesAddUp) {
  const Output outer = ops::Placeholder(variable(), DType::kBool, {}),
               inner = ops::Placeholder(variable(), DType::kBool, {});
  const Output update = ops::AssignAdd(variable().OnlyIf(outer).OnlyIf(inner), v_, ops::Const(variable(), 10.0f));
  Initialize();
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      const std::vector<Feed> feeds = {{outer, Tensor::Scalar(first)}, {inner, Tensor::Scalar(second)}};
      ASSERT_TRUE(session_->Run(feeds, {}, {update.node}).ok());
      EXPECT_EQ(ValueOf(v_), first && second ? 11 : 1) << first << second;
    }
  }
}

TEST_P(VariableSemanticsTest, AConditionMayBeBoundToWhatComesLater) {
  const Output condition = ops::Placeholder(variable(), DType::kBool, {});
  const Output first = ops::AssignAdd(variable().OnlyIf(condition), v_, ops::Const(variable(), 10.0f));
  const Output second = ops::Assign(variable().OnlyIf(condition), v_, ops::Scale(variable(), first, 2));
  const Output not_this = ops::Placeholder(reader(), DType::kBool, {});
  graph_.Bind(condition, ops::LogicalNot(reader(), not_this));
  Initialize();
  for (const bool skipped : {true, false}) {
    ASSERT_TRUE(session_->Run({{not_this, Tensor::Scalar(skipped)}}, {}, {second.node}).ok());
    EXPECT_EQ(ValueOf(v_), skipped ? 1 : 22);
  }
  EXPECT_FALSE(session_->Run({{not_this, Tensor::Scalar(true)}}, {condition}).value()[0].scalar<bool>());
  // Fed, it needs no value.
  ASSERT_TRUE(session_->Run({{condition, Tensor::Scalar(true)}}, {}, {second.node}).ok());
  EXPECT_EQ(ValueOf(v_), 64);
}

TEST_P(VariableSemanticsTest, AConditionThatNeedsItsUpdateIsACycle) {
  const Output condition = ops::Placeholder(variable(), DType::kBool, {});
  ops::AssignAdd(variable().OnlyIf(condition), v_, ops::Const(variable(), 1.0f));
  const Output update = ops::AssignAdd(variable().Named("needed").OnlyIf(condition), v_, ops::Const(variable(), 1.0f));
  graph_.Bind(condition, ops::Greater(reader(), update, ops::Const(reader(), 0.0f)));
  Initialize();
  EXPECT_THAT(session_->RunTarget(update.node),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("The step has a cycle: node 'needed' (op AssignAdd, defined at"),
                             HasSubstr("variable_semantics_test.cc:"), HasSubstr("NoControlDependencies()"))));
}

TEST_P(VariableSemanticsTest, BelongsToItsSession) {
  Initialize();
  ASSERT_TRUE(session_->WriteVariable(v_, Tensor::Scalar(4.0f)).ok());
  EXPECT_EQ(ValueOf(v_), 4);
  EXPECT_THAT(Scalars({v_.value()}), ElementsAre(4));
  Open(GetParam().devices);
  EXPECT_FALSE(session_->ReadVariable(v_).ok());
}

TEST_P(VariableSemanticsTest, APartOfAVariableSharesItsMemory) {
  const Variable whole = GetVariable(variable(), "whole", {3, 32}, ConstantInitializer(1));
  const Variable part = SliceOfVariable(reader(), whole, 32, 40);
  ASSERT_TRUE(part.valid()) << graph_.status();
  EXPECT_EQ(part.whole(), whole);
  const Output before = ops::Sum(reader(), whole);
  const Output update = ops::AssignAdd(reader(), part, ops::Fill(reader(), {40}, 10.0f));
  const Output after = ops::Sum(reader().ControlDependencies({update}), whole);
  const Output of_part = ops::Sum(reader(), ops::Scale(reader(), update, 2));
  Initialize();
  EXPECT_THAT(Scalars({before, after, of_part}), ElementsAre(96, 96 + 400, 2 * 440));
  const std::vector<double> values = session_->ReadVariable(whole)->ToDoubles();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], i >= 32 && i < 72 ? 11 : 1) << i;
}

TEST_P(VariableSemanticsTest, APartOfAValueIsRead) {
  const Output fed = ops::Placeholder(variable(), DType::kFloat32, {5, 32});
  const Output doubled = ops::Scale(variable(), fed, 2);
  // One part of a computed value and one of a feed, each read by a node that may work in place.
  const Output part = ops::Relu(reader(), ops::FlatSlice(reader(), doubled, 48, 100));
  const Output of_feed = ops::Relu(reader(), ops::FlatSlice(reader(), fed, 112, 48));
  Initialize();
  Tensor x(DType::kFloat32, {5, 32});
  for (int i = 0; i < 160; ++i) x.data<float>()[i] = static_cast<float>(i % 2 == 0 ? i : -i);
  ASSERT_OK_AND_ASSIGN(const auto result, session_->Run({{fed, x}}, {part, of_feed}));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(result[0].data<float>()[i], i % 2 == 0 ? 2 * (i + 48) : 0) << i;
  for (int i = 0; i < 48; ++i) EXPECT_EQ(result[1].data<float>()[i], i % 2 == 0 ? i + 112 : 0) << i;
}

INSTANTIATE_TEST_SUITE_P(Devices, VariableSemanticsTest,
                         testing::Values(Where{"cpu:1", "/cpu:0", "/cpu:0"}, Where{"cpu:2", "/cpu:0", "/cpu:1"},
                                         Where{"cpu:2", "/cpu:1", "/cpu:0"}),
                         [](const auto& info) { return "Case" + std::to_string(info.index); });

}  // namespace
}  // namespace belfry
