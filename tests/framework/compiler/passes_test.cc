// Tests of compiler passes by the plans they produce.
#include "framework/graph/gradients.h"
#include "ops/collective.h"
#include "ops/nn.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

class PassesTest : public SessionFixture {
 protected:
  // The number of nodes that run in a step.
  static int Running(const Plan& plan) {
    return static_cast<int>(std::count_if(plan.program.nodes.begin(), plan.program.nodes.end(), Runs));
  }
  static Tensor Ramp(const Shape& shape) {
    Tensor tensor(DType::kFloat32, shape);
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = std::sin(1.7f * static_cast<float>(i));
    return tensor;
  }
};

TEST_F(PassesTest, ConstantsAreFolded) {
  const Output two = ops::Const(root_, {1.f, 2.f});
  const Output five = ops::Add(root_, ops::Square(root_, two), ops::Const(root_, 1.0f));
  const Output x = ops::Placeholder(root_, DType::kFloat32, {2});
  Open("cpu:1");
  const auto step = Prepare({{x, {2}}}, {ops::Mul(root_, x, five), five});
  EXPECT_EQ(Running(step->plan()), 1) << step->plan().ToText(*devices_);
  ASSERT_TRUE(step->Run({Tensor::Of<float>({3, 4})}).ok());
  EXPECT_THAT(step->fetched(0).ToDoubles(), ElementsAre(6, 20));
  EXPECT_THAT(step->fetched(1).ToDoubles(), ElementsAre(2, 5));
}

TEST_F(PassesTest, ShapesAreFolded) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {Shape::kUnknown, 3});
  const Output rows = ops::Cast(root_, ops::ShapeOf(root_, x), DType::kFloat32);
  Open("cpu:1");
  const auto step = Prepare({{x, {7, 3}}}, {rows});
  EXPECT_EQ(Running(step->plan()), 0);
  ASSERT_TRUE(step->Run({Tensor::Zeros(DType::kFloat32, {7, 3})}).ok());
  EXPECT_THAT(step->fetched(0).ToDoubles(), ElementsAre(7, 3));
}

// A folded node neither keeps later nodes from being folded nor costs an instruction.
TEST_F(PassesTest, RunningAfterAConstantIsNoOrder) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {Shape::kUnknown, 3});
  const Output rows = ops::Cast(root_, ops::ShapeOf(root_, x), DType::kFloat32);
  const Output checked = ops::CheckNumerics(root_, ops::Div(root_, rows, rows), "no rows");
  const Output after = ops::Square(root_.ControlDependencies({checked}), ops::Const(root_, {3.f, 4.f}));
  Open("cpu:1");
  const auto step = Prepare({{x, {7, 3}}}, {after});
  EXPECT_EQ(step->plan().program.nodes.size(), 2u) << step->plan().ToText(*devices_);  // the feed and the result
  ASSERT_TRUE(step->Run({Tensor::Zeros(DType::kFloat32, {7, 3})}).ok());
  EXPECT_THAT(step->fetched(0).ToDoubles(), ElementsAre(9, 16));

  const auto status = session_->Run({{x, Tensor::Zeros(DType::kFloat32, {0, 3})}}, {after}).status();
  EXPECT_THAT(status.message(), HasSubstr("no rows"));
}

// Only the shape of the 2^54 elements is needed, so no memory is allocated.
TEST_F(PassesTest, ShapesOfWhatCouldNotBeHeldAreFolded) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {Shape::kUnknown});
  const Output huge = ops::BroadcastTo(root_, ops::Reshape(root_, x, {-1, 1, 1}), {-1, 1 << 27, 1 << 27});
  Open("cpu:1");
  ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{x, Tensor::Of<float>({1})}}, {ops::ShapeOf(root_, huge)}));
  EXPECT_THAT(result[0].ToDoubles(), ElementsAre(1, 1 << 27, 1 << 27));
}

TEST_F(PassesTest, LargeConstantsAreNotFolded) {
  const Output large = ops::Const(root_, Tensor::Zeros(DType::kFloat32, {64, 64}));
  Open("cpu:1");
  EXPECT_EQ(Running(Prepare({}, {ops::Neg(root_, large)})->plan()), 1);
}

TEST_F(PassesTest, StatefulNodesAreNeitherFoldedNorMerged) {
  const Output one = ops::Const(root_, 1.0f);
  const Output a = root_.Add("Hook", {one}), b = root_.Add("Hook", {one});
  Open("cpu:1");
  EXPECT_EQ(Count(Prepare({}, {ops::Add(root_, a, b)})->plan(), "Hook"), 2);
}

TEST_F(PassesTest, EqualNodesAreMerged) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {2});
  const auto branch = [&](double factor) { return ops::Scale(root_, ops::Square(root_, x), factor); };
  const Output y = ops::AddN(root_, {branch(2), branch(2), branch(3)});
  Open("cpu:1");
  const auto step = Prepare({{x, {2}}}, {y});
  EXPECT_EQ(Count(step->plan(), "Square"), 1);
  EXPECT_EQ(Count(step->plan(), "Scale"), 2);
  ASSERT_TRUE(step->Run({Tensor::Of<float>({1, 2})}).ok());
  EXPECT_THAT(step->fetched(0).ToDoubles(), ElementsAre(7, 28));
}

// The gradient of a broadcast is a sum to a shape that it turns out to have already. A variable must still be read
// before its update.
TEST_F(PassesTest, SumsToTheSameShapeAreDropped) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {Shape::kUnknown});
  const Variable v = GetVariable(root_, "v", {2}, ConstantInitializer(1));
  const Output update = ops::AssignAdd(root_, v, ops::Const(root_, {1.f, 2.f}));
  const Output same = root_.Add("SumLike", {ops::Neg(root_, x), x}), stretched = ops::BroadcastLike(root_, same, x);
  const Output before = root_.Add("SumLike", {v.value(), x});
  const Output after = ops::Square(root_.ControlDependencies({update}), before);
  Open("cpu:1");
  Initialize();
  const auto step = Prepare({{x, {2}}}, {ops::Square(root_, stretched), after}, {update.node});
  EXPECT_EQ(Count(step->plan(), "SumLike"), 1) << step->plan().ToText(*devices_);
  EXPECT_EQ(Count(step->plan(), "BroadcastLike"), 0);
  ASSERT_TRUE(step->Run({Tensor::Of<float>({3, 4})}).ok());
  EXPECT_THAT(step->fetched(0).ToDoubles(), ElementsAre(9, 16));
  EXPECT_THAT(step->fetched(1).ToDoubles(), ElementsAre(1, 1));
  const auto narrow =
      Prepare({{x, {1}}}, {ops::Square(root_, root_.Add("SumLike", {ops::Concat(root_, {x, x}, 0), x}))});
  EXPECT_EQ(Count(narrow->plan(), "SumLike"), 1);
}

TEST_F(PassesTest, NodesOnSeveralDevicesAreNotMerged) {
  const Output x = ops::Placeholder(root_.Device("/cpu:0"), DType::kFloat32, {2});
  const Output a = ops::Square(root_.Device("/cpu:0"), x), b = ops::Square(root_.Device("/cpu:1"), x);
  Open("cpu:2");
  EXPECT_EQ(Count(Prepare({{x, {2}}}, {a, b})->plan(), "Square"), 2);
}

TEST_F(PassesTest, NodesWithOtherControlInputsAreNotMerged) {
  const Variable v = Counter(root_, "v", 1);
  const Output update = ops::AssignAdd(root_, v, ops::Const(root_, 1.0f));
  const Output before = ops::Square(root_, v), after = ops::Square(root_.ControlDependencies({update}), v);
  Open("cpu:1");
  Initialize();
  EXPECT_THAT(Scalars({before, after}), ElementsAre(1, 4));
}

TEST_F(PassesTest, WhatIsNotNeededIsNotRun) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {2});
  const Output y = ops::Neg(root_, x);
  ops::Square(root_, y);
  Open("cpu:1");
  EXPECT_EQ(Running(Prepare({{x, {2}}}, {y})->plan()), 1);
  EXPECT_EQ(Running(Prepare({{y, {2}}}, {y})->plan()), 0);
}

class FusionTest : public PassesTest, public testing::WithParamInterface<const char*> {
 protected:
  void Build(bool convolution) {
    const std::string activation = GetParam();
    x_ = ops::Placeholder(root_, DType::kFloat32, convolution ? Shape{2, 7, 5, 3} : Shape{6, 3});
    w_ = GetVariable(root_, "w", convolution ? Shape{3, 3, 3, 8} : Shape{3, 8}, NormalInitializer(1));
    b_ = GetVariable(root_, "b", {8}, NormalInitializer(1));
    product_ = convolution ? ops::Conv2D(root_, x_, w_) : ops::MatMul(root_, x_, w_);
    biased_ = ops::BiasAdd(root_, product_, b_);
    y_ = activation == "Relu"        ? ops::Relu(root_, biased_)
         : activation == "Relu6"     ? ops::Relu6(root_, biased_)
         : activation == "LeakyRelu" ? ops::LeakyRelu(root_, biased_, 0.3)
         : activation == "Elu"       ? ops::Elu(root_, biased_, 0.7)
         : activation == "Tanh"      ? ops::Tanh(root_, biased_)
         : activation == "Sigmoid"   ? ops::Sigmoid(root_, biased_)
                                     : ops::Neg(root_, biased_);
    ASSERT_OK_AND_ASSIGN(gradients_,
                         Gradients(root_, {ops::Sum(root_, ops::Square(root_, y_))}, {w_.value(), b_.value()}));
    Open("cpu:1");
    Initialize();
  }
  // Runs both steps and checks that their first `common` fetches are equal.
  void ExpectSame(PreparedStep& a, PreparedStep& b, int common) {
    const Tensor feed = Ramp(x_.shape());
    ASSERT_TRUE(a.Run({feed}).ok());
    ASSERT_TRUE(b.Run({feed}).ok());
    for (int i = 0; i < common; ++i) {
      const std::vector<double> p = a.fetched(i).ToDoubles(), q = b.fetched(i).ToDoubles();
      ASSERT_EQ(p.size(), q.size());
      for (size_t k = 0; k < p.size(); ++k) ASSERT_NEAR(p[k], q[k], 1e-4 * std::max(1.0, std::abs(q[k]))) << i;
    }
  }

  Variable w_, b_;
  Output x_, product_, biased_, y_;
  std::vector<Output> gradients_;
};

TEST_P(FusionTest, ConvolutionBiasAndActivation) {
  Build(true);
  const bool activation = GetParam() != std::string("none");
  const auto fused = Prepare({{x_, x_.shape()}}, {y_});
  EXPECT_EQ(Count(fused->plan(), "FusedConv2D"), 1) << fused->plan().ToText(*devices_);
  EXPECT_EQ(Count(fused->plan(), "BiasAdd"), 0);
  EXPECT_EQ(Running(fused->plan()), activation ? 1 : 2) << fused->plan().ToText(*devices_);
  // Fetching an intermediate result keeps it.
  const auto plain = Prepare({{x_, x_.shape()}}, {y_, product_, biased_});
  EXPECT_EQ(Count(plain->plan(), "FusedConv2D"), 0);
  ExpectSame(*fused, *plain, 1);
  const auto half = Prepare({{x_, x_.shape()}}, {y_, biased_});
  EXPECT_EQ(Count(half->plan(), "FusedConv2D"), 1);
  ExpectSame(*half, *plain, 1);
}

TEST_P(FusionTest, MatMulBiasAndActivation) {
  Build(false);
  const auto fused = Prepare({{x_, x_.shape()}}, {y_});
  EXPECT_EQ(Count(fused->plan(), "FusedMatMul"), 1) << fused->plan().ToText(*devices_);
  EXPECT_EQ(Count(fused->plan(), "MatMul"), 0);
  EXPECT_EQ(Running(fused->plan()), GetParam() == std::string("none") ? 2 : 1);
  const auto plain = Prepare({{x_, x_.shape()}}, {y_, product_});
  EXPECT_EQ(Count(plain->plan(), "FusedMatMul"), 0);
  ExpectSame(*fused, *plain, 1);
}

TEST_P(FusionTest, FilterAndBiasGradients) {
  Build(true);
  const auto fused = Prepare({{x_, x_.shape()}}, gradients_);
  EXPECT_EQ(Count(fused->plan(), "Conv2DBackpropFilterBias"), 1) << fused->plan().ToText(*devices_);
  EXPECT_EQ(Count(fused->plan(), "BiasAddGrad"), 0);
  const auto filter = Prepare({{x_, x_.shape()}}, {gradients_[0]});
  EXPECT_EQ(Count(filter->plan(), "Conv2DBackpropFilterBias"), 0);
  ExpectSame(*fused, *filter, 1);
  const auto bias = Prepare({{x_, x_.shape()}}, {gradients_[1]});
  EXPECT_EQ(Count(bias->plan(), "BiasAddGrad"), 1);
  const Tensor feed = Ramp(x_.shape());
  ASSERT_TRUE(fused->Run({feed}).ok());
  ASSERT_TRUE(bias->Run({feed}).ok());
  EXPECT_THAT(bias->fetched(0).span<float>(), Pointwise(FloatNear(1e-2f), fused->fetched(1).span<float>()));
}

INSTANTIATE_TEST_SUITE_P(Activations, FusionTest,
                         testing::Values("none", "Relu", "Relu6", "LeakyRelu", "Elu", "Tanh", "Sigmoid"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(PassesTest, FusionKeepsAReadBeforeAnUpdate) {
  const Variable w = GetVariable(root_, "w", {1, 1}, ConstantInitializer(1));
  const Output x = ops::Const(root_, {2.f}, {1, 1});
  const Output product = ops::MatMul(root_, x, w);
  const Output update = ops::AssignAdd(root_, w, ops::Const(root_, {10.f}, {1, 1}));
  const Output y = ops::BiasAdd(root_.ControlDependencies({update}), product, ops::Const(root_, {0.f}));
  Open("cpu:1");
  Initialize();
  EXPECT_THAT(Scalars({y}), ElementsAre(2));
}

TEST_F(PassesTest, TransposesThatUndoEachOtherGo) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {2, 3, 4});
  const auto twice = [&](std::vector<int64_t> first, std::vector<int64_t> second) {
    return ops::Neg(root_, ops::Transpose(root_, ops::Transpose(root_, x, std::move(first)), std::move(second)));
  };
  const Output same = twice({2, 0, 1}, {1, 2, 0}), negative = twice({-1, 0, 1}, {1, -1, 0}), reversed = twice({}, {}),
               mixed = twice({2, 1, 0}, {}), other = twice({2, 0, 1}, {2, 0, 1});
  Open("cpu:1");
  for (const Output& y : {same, negative, reversed, mixed, other}) {
    const auto step = Prepare({{x, {2, 3, 4}}}, {y});
    EXPECT_EQ(Count(step->plan(), "Transpose"), y == other ? 2 : 0);
    ASSERT_TRUE(step->Run({Ramp({2, 3, 4})}).ok());
    EXPECT_EQ(step->fetched(0).shape(), y.shape());
    if (y != other) {
      EXPECT_EQ(step->fetched(0).data<float>()[5], -Ramp({2, 3, 4}).data<float>()[5]);
    }
  }
}

TEST_F(PassesTest, TransposesOfAVariableThatIsUpdatedStay) {
  const Variable v = GetVariable(root_, "v", {1, 1}, ConstantInitializer(1));
  const Output twice = ops::Transpose(root_, ops::Transpose(root_, v));
  const Output update = ops::AssignAdd(root_, v, ops::Const(root_, {10.f}, {1, 1}));
  const Output y = ops::Neg(root_.ControlDependencies({update}), twice);
  Open("cpu:1");
  Initialize();
  EXPECT_THAT(Scalars({y}), ElementsAre(-1));
}

TEST_F(PassesTest, ATensorMovesOnceToEachDevice) {
  const Scope here = root_.Device("/cpu:0"), there = root_.Device("/cpu:1"), third = root_.Device("/cpu:2");
  const Output x = ops::Placeholder(here, DType::kFloat32, {3});
  const Output y = ops::Square(here, x);
  std::vector<Output> sums;
  for (const Scope& scope : {there, third}) {
    sums.push_back(ops::Sum(scope, ops::Add(scope, ops::Neg(scope, y), ops::Mul(scope, y, x))));
  }
  Open("cpu:3");
  const auto step = Prepare({{x, {3}}}, sums);
  const std::vector<TransferInfo> transfers = step->plan().Transfers();
  ASSERT_EQ(transfers.size(), 4u) << step->plan().ToText(*devices_);
  for (const TransferInfo& transfer : transfers) {
    EXPECT_EQ(transfer.from, 0);
    EXPECT_EQ(transfer.bytes, 12u);
  }
  ASSERT_TRUE(step->Run({Tensor::Of<float>({1, 2, 3})}).ok());
  EXPECT_EQ(step->fetched(0).scalar<float>(), 36 - 14);
  EXPECT_EQ(step->fetched(1).scalar<float>(), 36 - 14);
}

TEST_F(PassesTest, ShapesAndConstantsDoNotMove) {
  const Output x = ops::Placeholder(root_.Device("/cpu:0"), DType::kFloat32, {3});
  const Output c = ops::Const(root_.Device("/cpu:0"), Tensor::Zeros(DType::kFloat32, {3000}));
  const Scope there = root_.Device("/cpu:1");
  const Output y = ops::Neg(there, c), z = ops::ZerosLike(there, x);
  Open("cpu:2");
  const auto step = Prepare({{x, {3}}}, {y, z});
  EXPECT_TRUE(step->plan().Transfers().empty()) << step->plan().ToText(*devices_);
  EXPECT_TRUE(step->Run({Tensor::Zeros(DType::kFloat32, {3})}).ok());
}

class CollectiveTest : public PassesTest, public testing::WithParamInterface<int> {
 protected:
  CollectiveTest() { Open("cpu:" + std::to_string(GetParam())); }
  Scope Tower(int i) const { return root_.Device("/cpu:" + std::to_string(i % GetParam())); }
  Output Reduce(int rank, int size, const Output& value, const std::string& group = "g") {
    return ops::AllReduceSum(Tower(rank), {.group = group, .rank = rank, .size = size}, {value})[0];
  }
  Output Value(int rank, std::initializer_list<float> values) { return ops::Const(Tower(rank), values); }
};

TEST_P(CollectiveTest, MissingRank) {
  const Output a = Reduce(0, 3, Value(0, {1})), c = Reduce(2, 3, Value(2, {1}));
  const auto status = session_->Run({a, c}).status();
  EXPECT_EQ(status.message(), "Collective 'g' is for 3 towers, but the graph has 2 of them");
}

TEST_P(CollectiveTest, RankTwice) {
  const Output a = Reduce(0, 2, Value(0, {1})), b = Reduce(0, 2, Value(1, {1}));
  const auto status = session_->Run({a, b}).status();
  EXPECT_THAT(status.message(), HasSubstr("Collective 'g' has rank 0 twice: node 'AllReduce_1'"));
  EXPECT_THAT(status.message(), HasSubstr("passes_test.cc:"));
}

TEST_P(CollectiveTest, ShapesThatDiffer) {
  const Output a = Reduce(0, 2, Value(0, {1})), b = Reduce(1, 2, Value(1, {1, 2}));
  const auto status = session_->Run({a, b}).status();
  EXPECT_THAT(status.message(), HasSubstr("Collective 'g': the towers disagree on shapes"));
  EXPECT_THAT(status.message(), HasSubstr("'AllReduce_1'"));
}

TEST_P(CollectiveTest, PartsThatDiffer) {
  const Output a = Reduce(0, 2, Value(0, {1}));
  const Output b = ops::Broadcast(Tower(1), {.group = "g", .rank = 1, .size = 2}, {Value(1, {1})})[0];
  EXPECT_THAT(session_->Run({a, b}).status().message(),
              HasSubstr("Collective 'g': the towers disagree on the reduction"));
  const Output c = Reduce(0, 2, Value(0, {1}), "h"), d = Reduce(1, 3, Value(1, {1}), "h");
  EXPECT_THAT(session_->Run({c, d}).status().message(),
              HasSubstr("Collective 'h': the towers disagree on their number"));
}

TEST_P(CollectiveTest, OneFetchRunsAllTowers) {
  const Output a = Reduce(0, 2, Value(0, {1, 2})), b = Reduce(1, 2, Value(1, {10, 20}));
  for (const Output& fetch : {a, b}) {
    ASSERT_OK_AND_ASSIGN(auto result, session_->Run({fetch}));
    EXPECT_THAT(result[0].ToDoubles(), ElementsAre(11, 22));
  }
}

TEST_P(CollectiveTest, OfOneTower) {
  const Variable v = Counter(Tower(0), "v", 3);
  const Output sum = Reduce(0, 1, ops::Scale(Tower(0), v, 2));
  const Output update = ops::AssignAdd(Tower(0), v, sum);
  const Node* after = ops::Group(root_, {sum});
  Initialize();
  EXPECT_THAT(Scalars({sum, update}, {after, sum.node}), ElementsAre(6, 9));
}

TEST_P(CollectiveTest, LeavesItsInputsAlone) {
  const Output x = ops::Placeholder(Tower(0), DType::kFloat32, {2});
  const Output y = ops::Neg(Tower(0), x);
  const Variable v = GetVariable(Tower(1), "v", {2}, ConstantInitializer(5));
  const Output a = Reduce(0, 2, y), b = Reduce(1, 2, v);
  Initialize();
  ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{x, Tensor::Of<float>({1, 2})}}, {a, b, y, v.value(), x}));
  EXPECT_THAT(result[0].ToDoubles(), ElementsAre(4, 3));
  EXPECT_THAT(result[1].ToDoubles(), ElementsAre(4, 3));
  EXPECT_THAT(result[2].ToDoubles(), ElementsAre(-1, -2));
  EXPECT_THAT(result[3].ToDoubles(), ElementsAre(5, 5));
  EXPECT_THAT(result[4].ToDoubles(), ElementsAre(1, 2));
}

TEST_P(CollectiveTest, OfAVariableAfterItsUpdate) {
  std::vector<Output> after;
  for (int i = 0; i < 2; ++i) {
    const Variable v = Counter(Tower(i).Replica(i), "v", i);
    const Output update = ops::AssignAdd(Tower(i), v, ops::Const(Tower(i), 10.0f));
    after.push_back(
        ops::Broadcast(Tower(i).ControlDependencies({update}), {.group = "b", .rank = i, .size = 2}, {v.value()})[0]);
  }
  Initialize();
  EXPECT_THAT(Scalars(after), ElementsAre(10, 10));
}

// Each tower adds its collectives in a different order; they still meet in one order.
TEST_P(CollectiveTest, InAnotherOrderInEachTower) {
  const std::string names[] = {"p", "q", "r"};
  std::vector<Output> sums(9);
  for (int tower = 0; tower < 3; ++tower) {
    for (int k = 0; k < 3; ++k) {
      const int group = (k + tower) % 3;
      const Output x =
          root_.Device("/cpu:" + std::to_string(tower % GetParam())).Add("Hook", {Value(tower, {1.f * group})});
      sums[3 * tower + group] = Reduce(tower, 3, x, names[group]);
    }
  }
  for (int repeat = 0; repeat < 20; ++repeat) EXPECT_THAT(Scalars(sums), ElementsAre(0, 3, 6, 0, 3, 6, 0, 3, 6));
}

TEST_P(CollectiveTest, ThatFollowEachOther) {
  std::vector<Output> second;
  for (int tower = 0; tower < 2; ++tower) {
    const Output first = Reduce(tower, 2, Value(tower, {1.f + tower}), "first");
    second.push_back(Reduce(tower, 2, ops::Square(Tower(tower), first), "second"));
  }
  EXPECT_THAT(Scalars(second), ElementsAre(18, 18));
}

// The all-reduce of a first gradient does not wait for work that it does not need, even if that work waits for an
// all-reduce too.
TEST_P(CollectiveTest, StartAsSoonAsTheyCan) {
  std::vector<FeedSpec> feeds;
  std::vector<Output> statistics, gradients, results;
  for (int tower = 0; tower < 2; ++tower) {
    feeds.push_back({ops::Placeholder(Tower(tower), DType::kFloat32, {2}), {2}});
    statistics.push_back(Reduce(tower, 2, ops::Neg(Tower(tower), feeds.back().output), "statistics"));
    gradients.push_back(ops::Square(Tower(tower), statistics.back()));
  }
  for (int tower = 0; tower < 2; ++tower) {
    Output x = statistics[tower];
    for (int i = 0; i < 4; ++i) x = Tower(tower).Add("Hook", {x});
    results.push_back(x);
    results.push_back(Reduce(tower, 2, gradients[tower], "gradients"));
  }
  const auto step = Prepare(feeds, results);
  const std::vector<ProgramNode>& nodes = step->plan().program.nodes;
  const auto first = [&](auto predicate) {
    return std::find_if(nodes.begin(), nodes.end(), predicate) - nodes.begin();
  };
  EXPECT_LT(first([](const ProgramNode& node) {
              return node.op->kind == OpKind::kAllReduce && node.attrs.String("group") == "gradients";
            }),
            first([](const ProgramNode& node) { return node.op->name == "Hook"; }));
}

TEST_P(CollectiveTest, ThatWaitForEachOther) {
  const Output a0 = Reduce(0, 2, Value(0, {1}), "a");
  const Output b0 = Reduce(0, 2, ops::Neg(Tower(0), a0), "b");
  const Output b1 = Reduce(1, 2, Value(1, {1}), "b");
  const Output a1 = Reduce(1, 2, ops::Neg(Tower(1), b1), "a");
  const auto status = session_->Run({a0, a1, b0}).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("collectives, wait for each other")));
  EXPECT_THAT(status.message(), HasSubstr("'AllReduce_3'"));
}

INSTANTIATE_TEST_SUITE_P(Devices, CollectiveTest, testing::Values(1, 2, 3),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace belfry
