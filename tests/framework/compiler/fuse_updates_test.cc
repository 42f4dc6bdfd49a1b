// Fusing updates into one node.
#include "absl/strings/str_cat.h"
#include "ops/collective.h"
#include "ops/training.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

constexpr int64_t kLarge = int64_t{1} << 16;

// CPU kernels of an op, fused: each node's runs after the one before it. Belfry's own CPU kernels have no such form,
// because it would save nothing.
void MakeFusable(OpRegistry& registry, absl::string_view op) {
  KernelDef kernel = *registry.Find(op)->FindKernel("CPU", DType::kFloat32);
  kernel.fuse_updates = [make = kernel.make](absl::Span<const KernelSpec> specs) -> absl::StatusOr<Kernel> {
    std::vector<std::pair<KernelFunction, size_t>> runs;  // with its first input
    size_t inputs = 0;
    for (const KernelSpec& spec : specs) {
      runs.emplace_back(make(spec).value().run, inputs);
      inputs += spec.inputs.size();
    }
    return Kernel{[runs](const KernelContext& context) {
      for (const auto& [run, first] : runs) {
        KernelContext at = context;
        at.inputs += first;
        if (absl::Status status = run(at); !status.ok()) return status;
      }
      return absl::OkStatus();
    }};
  };
  registry.AddKernels(op, {kernel});
}

class FuseUpdates : public SessionFixture {
 protected:
  FuseUpdates() {
    MakeFusable(registry_, "ApplyGradientDescent");
    MakeFusable(registry_, "ApplyMovingAverage");
  }
  Variable Scalar(absl::string_view name, float value) {
    return GetVariable(root_, name, {}, ConstantInitializer(value));
  }
  Output Descend(const Scope& scope, const Variable& variable, Output gradient) {
    return ops::ApplyGradientDescent(scope, variable, rate_, gradient);
  }
  // How many fused updates a step has, and how many by themselves.
  std::pair<int, int> Counts(absl::Span<const Output> fetches, const Node* target) {
    Open("cpu:1");
    Initialize();
    const auto step = Prepare({}, fetches, {target});
    return {Count(step->plan(), "_Updates"), Count(step->plan(), "ApplyGradientDescent")};
  }

  const Output rate_ = ops::Const(root_, 1.f), one_ = ops::Const(root_, 1.f);
};

TEST_F(FuseUpdates, OfAnyRateWithTheSameAttributesBothWithAConditionOrWithout) {
  const Output other_rate = ops::Const(root_, 2.f);
  const Scope held = root_.OnlyIf(ops::Const<bool>(root_, false));
  std::vector<Variable> v;
  for (int i = 0; i < 9; ++i) v.push_back(Scalar(absl::StrCat("v", i), 10));
  const Node* train = ops::Group(
      root_,
      {Descend(root_, v[0], one_), Descend(root_, v[1], one_), ops::ApplyGradientDescent(root_, v[2], other_rate, one_),
       ops::ApplyGradientDescent(root_, v[3], other_rate, one_),
       ops::ApplyGradientDescent(root_, v[4], rate_, one_, {.weight_decay = 0.5}),
       ops::ApplyGradientDescent(root_, v[8], rate_, one_, {.weight_decay = 0.500000001}), Descend(held, v[5], one_),
       Descend(held, v[6], one_), ops::ApplyGradientDescent(root_, v[7], other_rate, one_)});
  EXPECT_EQ(Counts({}, train), std::pair(2, 2));
  Scalars({}, {train});
  std::vector<float> values;
  for (const Variable& variable : v) values.push_back(ValueOf(variable));
  EXPECT_THAT(values, testing::ElementsAre(9, 9, 8, 8, 4, 10, 10, 8, 4));
}

TEST_F(FuseUpdates, LargeOnesStayAndSmallOnesFillUp) {
  const auto counts = [&](const std::vector<int64_t>& sizes) {
    std::vector<Output> updates;
    for (int64_t size : sizes) {
      const Variable v = GetVariable(root_, absl::StrCat("v", graph_.size()), {size}, ZerosInitializer());
      updates.push_back(Descend(root_, v, ops::Fill(root_, {size}, 1.f)));
    }
    return Counts({}, ops::Group(root_, updates));
  };
  EXPECT_EQ(counts({kLarge, 4, 4, kLarge + 1}), std::pair(1, 2));
  EXPECT_EQ(counts({kLarge - 1, 1, 8, kLarge - 8, 1}), std::pair(2, 1));
  EXPECT_EQ(counts({4}), std::pair(0, 1));
}

TEST_F(FuseUpdates, AResultThatIsReadOrFetchedStaysApart) {
  const Variable a = Scalar("a", 1), b = Scalar("b", 2), c = Scalar("c", 3), d = Scalar("d", 4);
  const Output new_a = Descend(root_, a, one_), new_b = Descend(root_, b, one_);
  const Output read = ops::Add(root_, new_a, one_);
  const Node* train = ops::Group(root_, {Descend(root_, c, one_), Descend(root_, d, one_), read});
  EXPECT_EQ(Counts({new_b, read}, train), std::pair(1, 2));
  EXPECT_THAT(Scalars({new_b, read}, {train}), testing::ElementsAre(1, 1));
}

// The second variable's gradient is what became of the first.
TEST_F(FuseUpdates, AnUpdateAfterAnotherStaysApart) {
  const Variable a = Scalar("a", 1), b = Scalar("b", 2), c = Scalar("c", 3), d = Scalar("d", 4);
  const Output first = Descend(root_, a, one_), also_first = Descend(root_, c, one_);
  const Scope after = root_.ControlDependencies({first});
  const Output gradient = ops::Add(root_, ops::ReadVariable(after, a), one_);
  const Node* train = ops::Group(
      root_, {first, also_first, Descend(root_, b, gradient), Descend(root_, d, ops::Add(root_, gradient, gradient))});
  EXPECT_EQ(Counts({}, train), std::pair(2, 0));
  Scalars({}, {train});
  EXPECT_EQ(ValueOf(a), 0);
  EXPECT_EQ(ValueOf(b), 1);
  EXPECT_EQ(ValueOf(d), 2);
}

// The all-reduces of a group meet: what follows one of them waits for what the other reads, which here is what an
// update left.
TEST_F(FuseUpdates, AnUpdateBehindACollectiveStaysApartFromOneBeforeIt) {
  const Scope first = root_.Device("/cpu:0"), second = root_.Device("/cpu:1");
  const Variable a = GetVariable(second, "a", {}, ConstantInitializer(5));
  const Variable b = GetVariable(second, "b", {}, ConstantInitializer(7));
  const Output rate = ops::Const(second, 1.f), one = ops::Const(second, 1.f);
  const Output before = ops::ApplyGradientDescent(second, a, rate, one);
  const Output updated = ops::ReadVariable(second.ControlDependencies({before}), a);
  const auto mean = [&](const Scope& tower, int rank, Output value) {
    return ops::AllReduceMean(tower, {.group = "g", .rank = rank, .size = 2}, ops::Const(tower, 1.f), {value})[0];
  };
  const Output other = mean(first, 0, ops::Neg(first, updated));
  const Output gradient = ops::Neg(second, mean(second, 1, ops::Const(second, 2.f)));  // -(-4 + 2) / 2
  const Node* train = ops::Group(root_, {before, ops::ApplyGradientDescent(second, b, rate, gradient), other});
  Open("cpu:2");
  Initialize();
  const auto step = Prepare({}, {}, {train});
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(Count(step->plan(), "_Updates"), 0);
  ASSERT_TRUE(step->Run({}).ok());
  EXPECT_EQ(ValueOf(b), 6);
}

// A read of b has to come after the update of a and before that of b.
TEST_F(FuseUpdates, AReadBetweenTwoUpdatesKeepsThemApart) {
  const Variable a = Scalar("a", 1), b = Scalar("b", 2);
  const Output first = Descend(root_, a, one_), second = Descend(root_, b, one_);
  const Output between = ops::Add(root_.ControlDependencies({first}), b, a);
  const Node* train = ops::Group(root_, {first, second});
  EXPECT_EQ(Counts({between}, train), std::pair(0, 2));
  EXPECT_THAT(Scalars({between}, {train}), testing::ElementsAre(2));
  EXPECT_EQ(ValueOf(b), 1);
}

TEST_F(FuseUpdates, ReadersOfOldValuesComeBefore) {
  const Variable a = Scalar("a", 1), b = Scalar("b", 2);
  const Output both = ops::Add(root_, a, b);
  const Node* train = ops::Group(root_, {Descend(root_, a, both), Descend(root_, b, both)});
  EXPECT_EQ(Counts({both}, train), std::pair(1, 0));
  EXPECT_THAT(Scalars({both, a}, {train}), testing::ElementsAre(3, 1));
  EXPECT_EQ(ValueOf(a), -2);
  EXPECT_EQ(ValueOf(b), -1);
}

// Moving averages follow what the updates leave.
TEST_F(FuseUpdates, AveragesAreFusedBehindTheUpdates) {
  const Variable a = Scalar("a", 8), b = Scalar("b", 4), of_a = Scalar("of_a", 8), of_b = Scalar("of_b", 4);
  const Node* updates = ops::Group(root_, {Descend(root_, a, one_), Descend(root_, b, one_)});
  const Scope after = root_.ControlDependencies({updates});
  const Output step = ops::Const<int64_t>(root_, 0);
  const auto follow = [&](const Variable& average, const Variable& value) {
    return ops::ApplyMovingAverage(after, average, step, value, {.decay = 0.5, .use_step = false});
  };
  const Node* train = ops::Group(root_, {follow(of_a, a), follow(of_b, b)});
  EXPECT_EQ(Counts({}, train), std::pair(2, 0));
  Scalars({}, {train});
  EXPECT_EQ(ValueOf(of_a), 7.5f);
  EXPECT_EQ(ValueOf(of_b), 3.5f);
}

// All updates that wait for one all-reduce are one, however large; those of another are not.
TEST_F(FuseUpdates, TheUpdatesOfABucketAreOne) {
  std::vector<Output> updates;
  for (int rank = 0; rank < 2; ++rank) {
    const Scope tower = root_.Device(absl::StrCat("/cpu:", rank)).Replica(rank);
    for (const char* bucket : {"first", "second"}) {
      const std::vector<Output> gradients = {ops::Fill(tower, {kLarge}, rank + 1.f), ops::Fill(tower, {3}, rank + 2.f)};
      const std::vector<Output> means =
          ops::AllReduceMean(tower, {.group = bucket, .rank = rank, .size = 2}, ops::Const(tower, 1.f), gradients);
      for (size_t i = 0; i < means.size(); ++i) {
        const Variable v = GetVariable(tower, absl::StrCat(bucket, i), means[i].shape(), ZerosInitializer());
        updates.push_back(ops::ApplyGradientDescent(tower, v, ops::Const(tower, 1.f), means[i]));
      }
    }
  }
  const Node* train = ops::Group(root_, updates);
  Open("cpu:2");
  Initialize();
  const auto step = Prepare({}, {}, {train});
  EXPECT_EQ(Count(step->plan(), "_Updates"), 4);
  EXPECT_EQ(Count(step->plan(), "ApplyGradientDescent"), 0);
  ASSERT_TRUE(step->Run({}).ok());
  for (const Variable& variable : graph_.variables()) {
    const double expected = variable.shape().elements() == 3 ? -2.5 : -1.5;
    EXPECT_THAT(session_->ReadVariable(variable)->ToDoubles(), testing::Each(expected)) << variable.name();
  }
}

TEST_F(FuseUpdates, AreDescribedByTheirNames) {
  const Node* train = ops::Group(
      root_, {Descend(root_.Named("one"), Scalar("a", 1), one_), Descend(root_.Named("other"), Scalar("b", 2), one_)});
  Open("cpu:1");
  const auto step = Prepare({}, {}, {train});
  for (const ProgramNode& node : step->plan().program.nodes) {
    if (node.op->name != "_Updates") continue;
    EXPECT_THAT(Describe(node), testing::HasSubstr("(op _Updates of ApplyGradientDescent: one, other, defined at"));
    return;
  }
  FAIL() << "no fused update";
}

TEST_F(FuseUpdates, WithoutFusionEachRunsByItself) {
  const Variable a = Scalar("a", 1), b = Scalar("b", 2);
  const Node* train = ops::Group(root_, {Descend(root_, a, one_), Descend(root_, b, one_)});
  Open("cpu:1", {.fuse = false});
  const auto step = Prepare({}, {}, {train});
  EXPECT_EQ(Count(step->plan(), "_Updates"), 0);
  EXPECT_EQ(Count(step->plan(), "ApplyGradientDescent"), 2);
}

}  // namespace
}  // namespace belfry
