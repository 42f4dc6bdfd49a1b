// Injected faults of single bits: a core that computes wrong, a result, a weight or a gradient that changes. Each is
// found within the steps that docs/audit.md states, and nothing is where there is no fault.
#include <sched.h>

#include <cstring>
#include <random>

#include "framework/base/cores.h"
#include "framework/compiler/recheck.h"
#include "framework/graph/gradients.h"
#include "ops/collective.h"
#include "ops/nn.h"
#include "ops/random.h"
#include "tests/framework/runtime/faulty_collective.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kElements = 40;

Output Wrong(OpScope scope, const Output& x) { return scope.Add("Faulty", {x}); }

class RecheckTest : public SessionFixture {
 protected:
  RecheckTest() {
    registry_.Add(Faulty("Faulty", &fault_));
    registry_.Add(Faulty("FaultyGradient", &gradient_fault_));
    registry_.Add(FaultyUpdate());
  }

  void OpenWith(double share, absl::string_view spec = "cpu:1", absl::Duration short_step = absl::ZeroDuration()) {
    Open(spec, {.short_step = short_step, .recheck = share});
  }
  // A step that is fed x_ with 1, 2, 3, ...
  std::unique_ptr<PreparedStep> PrepareFed(const Output& fetch) {
    const FeedSpec feed{x_, {kElements}};
    Tensor value(DType::kFloat32, {kElements});
    for (int64_t i = 0; i < kElements; ++i) value.data<float>()[i] = static_cast<float>(i) + 1;
    feeds_ = {value};
    return Prepare({feed}, {fetch});
  }
  // The first error of up to `runs` runs, and in *found the number of the run that it came with, from 1.
  absl::Status FirstError(
      PreparedStep& step, int runs, int* found = nullptr, const std::function<void()>& between = [] {}) {
    for (int run = 1; run <= runs; ++run) {
      const absl::Status status = step.Run(feeds_);
      if (found != nullptr) *found = run;
      if (!status.ok()) return status;
      between();
    }
    return absl::OkStatus();
  }
  // A step that adds a variable's square to it.
  const Node* Grow(const Variable& w) {
    return ops::Group(root_, {ops::AssignAdd(root_.Named("grow"), w, ops::Mul(root_, w.value(), w.value()))});
  }
  Variable Weights(absl::string_view name) { return GetVariable(root_, name, {kElements}, ConstantInitializer(0.01)); }

  using Fault = std::function<void(const KernelContext&)>;
  // Called by kernels when they are done; those of "Faulty" and its gradient only if victim_ is empty or their node.
  Fault fault_ = [](const KernelContext&) {}, gradient_fault_ = fault_;
  const Output x_ = ops::Placeholder(root_, DType::kFloat32, {kElements});
  std::vector<Tensor> feeds_;
  std::string victim_;
  std::vector<std::string> names_;  // of these nodes, as their kernels were made

 private:
  // y = x, with a fault. Its gradient is one, too, with a fault of its own.
  OpDef Faulty(const std::string& name, const Fault* fault) {
    return {.name = name,
            .inputs = {{.name = "x"}},
            .outputs = {{.name = "y"}},
            .types = {{"T", kWideFloatTypes}},
            .shape = ShapeOfInput,
            .gradient = [](const Scope& scope, const Node&, absl::Span<const Output> dy) -> std::vector<Output> {
              return {scope.Add("FaultyGradient", {dy[0]})};
            },
            .kernels = {{"CPU", DType::kFloat32, [this, fault](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                           const std::string name(spec.name);
                           names_.push_back(name);
                           return Kernel{[=, this, bytes = spec.outputs[0].bytes()](const KernelContext& context) {
                             if (bytes > 0) std::memcpy(context.outputs[0], context.inputs[0], bytes);
                             if (victim_.empty() || victim_ == name) (*fault)(context);
                             return absl::OkStatus();
                           }};
                         }}}};
  }

  // variable = variable + value, with a fault.
  OpDef FaultyUpdate() {
    return {.name = "FaultyUpdate",
            .inputs = {{.name = "variable", .ref = true}, {.name = "value"}},
            .outputs = {{.name = "updated", .ref = true}},
            .types = {{"T", kWideFloatTypes}},
            .shape = ShapeOfInput,
            .not_differentiable = true,
            .stateful = true,
            .kernels = {{"CPU", DType::kFloat32, [this](const KernelSpec&) -> absl::StatusOr<Kernel> {
                           return Kernel{[this](const KernelContext& context) {
                             for (int64_t i = 0; i < kElements; ++i) {
                               context.ref<float>(0)[i] += context.input<float>(1)[i];
                             }
                             fault_(context);
                             return absl::OkStatus();
                           }};
                         }}}};
  }
};

TEST_F(RecheckTest, EveryOpIsComputedTwiceOnceInACycle) {
  const Output first = root_.Named("first").Add("Faulty", {x_});
  const Output second = root_.Named("second").Add("FaultyGradient", {first});
  std::vector<int> calls(2, 0);
  fault_ = [&](const KernelContext&) { ++calls[0]; };
  gradient_fault_ = [&](const KernelContext&) { ++calls[1]; };
  for (const auto& [share, steps] : {std::pair(1.0, 1), std::pair(0.3, 4), std::pair(0.1, 10), std::pair(0.01, 100)}) {
    OpenWith(share);
    const auto step = PrepareFed(second);
    EXPECT_EQ(PlanRecheck(step->plan(), share, 1).steps, steps);
    ASSERT_TRUE(FirstError(*step, 3).ok());  // a cycle may begin anywhere
    calls.assign(2, 0);
    ASSERT_TRUE(FirstError(*step, 2 * steps).ok());
    EXPECT_EQ(calls, std::vector<int>(2, 2 * steps + 2)) << share;
  }
}

TEST_F(RecheckTest, OpsWithOtherEffectsAreComputedOnce) {
  int calls = 0;
  hook_ = [&] {
    ++calls;
    return absl::OkStatus();
  };
  const Output y = root_.Add("Hook", {x_});
  OpenWith(1);
  const auto step = PrepareFed(y);
  ASSERT_TRUE(FirstError(*step, 5).ok());
  EXPECT_EQ(calls, 5);
  const RecheckPlan plan = PlanRecheck(step->plan(), 1, 1);
  EXPECT_EQ(plan.without, 1);
  EXPECT_THAT(RecheckText(plan), HasSubstr("; not 1 op with other effects\n"));
}

TEST_F(RecheckTest, ATransientFaultNamesWhatDiffers) {
  int calls = 0;
  fault_ = [&](const KernelContext& context) {
    if (++calls == 6) FlipBit(context.outputs[0], 4 * 37 + 2, 7);  // the second computation of the third run
  };
  const Output y = Wrong(root_.NameScope("tower_0").Named("wrong"), x_);
  OpenWith(1);
  const auto step = PrepareFed(y);
  int run = 0;
  const absl::Status status = FirstError(*step, 10, &run);
  EXPECT_EQ(run, 3);
  EXPECT_THAT(
      status,
      StatusIs(absl::StatusCode::kDataLoss,
               AllOf(HasSubstr("silent corruption: output 0, float32[40], computed twice from the same inputs"),
                     HasSubstr("1 of 40 elements differ, the first is element 37, 0x42180000 and then 0x42980000"),
                     HasSubstr("node 'tower_0/wrong' (op Faulty, defined at "), HasSubstr("recheck_test.cc:"),
                     HasSubstr("/device:CPU:0]"))));
  EXPECT_TRUE(session_->corrupted());
}

// All calls on one core are wrong: found because the second computation is on another.
TEST_F(RecheckTest, ACoreThatComputesWrongIsFoundWithinACycle) {
  const std::vector<int> cores = AvailableCores();
  if (cores.size() < 2) GTEST_SKIP() << "There is one core, which cannot be compared with another.";
  for (const int wrong : {cores[0], cores[1]}) {
    fault_ = [wrong](const KernelContext& context) {
      if (sched_getcpu() == wrong) FlipBit(context.outputs[0], 13, 3);
    };
    Output y = x_;
    for (int i = 0; i < 5; ++i) y = ops::Neg(root_, root_.Add("Faulty", {y}));
    OpenWith(0.05);
    const auto step = PrepareFed(y);
    int run = 0;
    EXPECT_EQ(FirstError(*step, 20, &run).code(), absl::StatusCode::kDataLoss) << wrong;
  }
}

TEST_F(RecheckTest, ThreadsGetTheirCoresBack) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const Output y = root_.Add("Faulty", {x_});
  OpenWith(1);
  ASSERT_TRUE(FirstError(*PrepareFed(y), 3).ok());
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST_F(RecheckTest, AFaultInAnUpdateIsFound) {
  const Variable w = Weights("w");
  const Node* const update = root_.Named("step").Add("FaultyUpdate", {w.value(), w.value()}).node;
  OpenWith(1);
  Initialize();
  const auto step = Prepare({}, {}, absl::MakeConstSpan(&update, 1));
  ASSERT_TRUE(FirstError(*step, 3).ok());
  EXPECT_EQ(session_->ReadVariable(w)->data<float>()[7], 0.01f * 8);
  int calls = 0;
  fault_ = [&](const KernelContext& context) {
    if (++calls == 2) FlipBit(context.outputs[0], 4 * 5, 0);
  };
  EXPECT_THAT(FirstError(*step, 1),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("the variable of input 0, float32[40], computed twice"),
                             HasSubstr("1 of 40 elements differ, the first is element 5"), HasSubstr("node 'step'"),
                             HasSubstr("the step had begun to update variables"))));
}

// Bits of a weight that change between two steps.
TEST_F(RecheckTest, AWeightThatChangesInMemoryIsFoundWithinACycle) {
  const Variable w = Weights("w"), frozen = Weights("frozen");
  const Output seen = root_.Add("Faulty", {w.value()}), also = root_.Add("FaultyGradient", {frozen.value()});
  const Node* const targets[] = {Grow(w)};
  for (const bool trained : {true, false}) {
    for (const double share : {1.0, 0.1}) {
      void *of_w = nullptr, *of_frozen = nullptr;
      fault_ = [&](const KernelContext& context) { of_w = const_cast<void*>(context.inputs[0]); };
      gradient_fault_ = [&](const KernelContext& context) { of_frozen = const_cast<void*>(context.inputs[0]); };
      OpenWith(share);
      Initialize();
      const auto step = Prepare({}, {seen, also}, targets);
      // A cell that never keeps what is written to it; for a weight that is not trained, a change once its checksum is
      // known.
      const int cycle = static_cast<int>(1 / share), first = trained ? 3 : cycle + 1;
      int run = 0;
      const absl::Status status = FirstError(*step, 40, &run, [&] {
        if (trained ? run >= first : run == first) FlipBit(trained ? of_w : of_frozen, 4 * 20 + 1, 5);
      });
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                                   AllOf(HasSubstr(trained ? "the memory of variable w, created at "
                                                           : "the memory of variable frozen, "),
                                         HasSubstr("has changed since it was last written"))));
      EXPECT_LE(run, first + cycle + 1) << share << trained;
    }
  }
}

TEST_F(RecheckTest, WritingAVariableIsNoFault) {
  const Variable w = Weights("w");
  const Output seen = ops::Neg(root_, w.value());
  const Node* const targets[] = {Grow(w)};
  OpenWith(1);
  Initialize();
  const auto step = Prepare({}, {}, targets), other = Prepare({}, {seen}, targets);
  Tensor value(DType::kFloat32, {kElements});
  for (int run = 0; run < 20; ++run) {
    ASSERT_TRUE((run % 3 == 0 ? other : step)->Run().ok());
    std::fill_n(value.data<float>(), kElements, static_cast<float>(run) * 0.001f);
    if (run % 4 == 1) {
      ASSERT_TRUE(session_->WriteVariable(w, value).ok());
    }
    if (run % 5 == 2) Initialize();
  }
  EXPECT_FALSE(session_->corrupted());
}

TEST_F(RecheckTest, AResultThatChangesBeforeItsLastReaderIsFound) {
  void* result = nullptr;
  fault_ = [&](const KernelContext& context) { result = context.outputs[0]; };
  const Output y = root_.Named("made").Add("Faulty", {x_});
  int runs = 0;
  hook_ = [&] {
    if (++runs == 4) FlipBit(result, 11, 6);
    return absl::OkStatus();
  };
  const Output between = root_.Add("Hook", {y});
  const Output last = root_.Named("last").Add("FaultyGradient", {y});
  OpenWith(1);
  // Named first, the hook runs first.
  const auto step = PrepareFed(ops::Add(root_, between, last));
  int run = 0;
  const absl::Status status = FirstError(*step, 10, &run);
  EXPECT_EQ(run, 4);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("the memory of output 0 of node 'made' (op Faulty"),
                    HasSubstr("has changed before its last use"), HasSubstr("node 'last' (op FaultyGradient")));
}

// A random bit of the output of a random op, forward or backward, is wrong on one core; or a random bit of a random
// weight changes after each step.
TEST_F(RecheckTest, RandomFaultsOfSingleBitsAreFoundWithinACycle) {
  const std::vector<int> cores = AvailableCores();
  if (cores.size() < 2) GTEST_SKIP() << "There is one core, which cannot be compared with another.";
  Output y = x_;
  std::vector<Output> weights;
  std::vector<const Node*> updates;
  for (int layer = 0; layer < 3; ++layer) {
    const Variable w = Weights(absl::StrCat("w", layer));
    weights.push_back(w.value());
    y = ops::Tanh(root_, root_.Add("Faulty", {ops::Mul(root_, y, root_.Named("weight").Add("Faulty", {w.value()}))}));
  }
  const std::vector<Output> gradients = Gradients(root_, {ops::Mean(root_, ops::Square(root_, y))}, weights).value();
  const std::vector<Variable> variables = graph_.variables();
  for (size_t i = 0; i < gradients.size(); ++i)
    updates.push_back(ops::AssignSub(root_, variables[i], gradients[i]).node);
  const Node* const update = ops::Group(root_, updates);
  constexpr int kCycle = 5, kFaults = 60;
  std::mt19937_64 random(TestRandom()());
  int outputs = 0, of_weights = 0;
  for (int i = 0; i < kFaults; ++i) {
    OpenWith(1.0 / kCycle);
    Initialize();
    fault_ = gradient_fault_ = [](const KernelContext&) {};
    PrepareFed(y);
    names_.clear();
    const auto step = Prepare({{x_, {kElements}}}, {}, absl::MakeConstSpan(&update, 1));
    const bool in_memory = i % 3 == 0;
    victim_ =
        in_memory ? std::vector{"weight", "weight_1", "weight_2"}[random() % 3] : names_[random() % names_.size()];
    const auto byte = static_cast<int64_t>(random() % (4 * kElements));
    const auto bit = static_cast<int>(random() % 8);
    void* weight = nullptr;
    bool begun = false;
    fault_ = gradient_fault_ = [&](const KernelContext& context) {
      weight = const_cast<void*>(context.inputs[0]);
      if (begun && !in_memory && sched_getcpu() == cores[i % 2]) FlipBit(context.outputs[0], byte, bit);
    };
    ASSERT_TRUE(FirstError(*step, static_cast<int>(random() % kCycle)).ok());
    begun = true;
    int run = 0;
    const absl::Status status = FirstError(*step, 3 * kCycle, &run, [&] {
      if (in_memory) FlipBit(weight, byte, bit);
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << victim_ << ", byte " << byte << ", bit " << bit;
    EXPECT_LE(run, kCycle + (in_memory ? 1 : 0)) << status;
    ++(in_memory ? of_weights : outputs);
  }
  EXPECT_GT(outputs, of_weights);
}

// Two towers that average a gradient.
class RecheckTowers : public RecheckTest, public testing::WithParamInterface<bool> {
 protected:
  void Build(const CollectiveFactory& collectives = MakeLocalCollective, double share = 1) {
    std::vector<const Node*> updates;
    for (int tower = 0; tower < 2; ++tower) {
      const Scope scope =
          root_.NameScope(absl::StrCat("tower_", tower)).Device(absl::StrCat("/cpu:", tower)).Replica(tower);
      weights_.push_back(GetVariable(scope, "w", {kElements}, ConstantInitializer(0.01)));
      const Output w = weights_.back().value();
      const Output loss = ops::Mean(scope, ops::Square(scope, tower == 0 ? scope.Named("f").Add("Faulty", {w}) : w));
      const std::vector<Output> gradients = Gradients(scope, {loss}, {w}).value();
      const std::vector<Output> means =
          ops::AllReduceMean(scope, {.group = "g", .rank = tower, .size = 2}, ops::Const(scope, 1.0f), gradients);
      updates.push_back(ops::AssignSub(scope, weights_.back(), means[0]).node);
    }
    Open("cpu:2", {.collectives = collectives,
                   .short_step = GetParam() ? absl::InfiniteDuration() : absl::ZeroDuration(),
                   .recheck = share});
    Initialize();
    const Node* const all = ops::Group(root_, updates);
    step_ = Prepare({}, {}, absl::MakeConstSpan(&all, 1));
  }

  std::vector<Variable> weights_;
  std::unique_ptr<PreparedStep> step_;
};

TEST_P(RecheckTowers, NothingIsFoundWithoutAFault) {
  Build();
  EXPECT_TRUE(FirstError(*step_, 50).ok());
  EXPECT_EQ(session_->ReadVariable(weights_[0])->data<float>()[3],
            session_->ReadVariable(weights_[1])->data<float>()[3]);
}

TEST_P(RecheckTowers, AWrongGradientIsFoundBeforeItIsAveraged) {
  Build();
  ASSERT_TRUE(FirstError(*step_, 2).ok());
  const float before = session_->ReadVariable(weights_[1])->data<float>()[0];
  int calls = 0;
  gradient_fault_ = [&](const KernelContext& context) {
    if (++calls == 2) FlipBit(context.outputs[0], 4 * 9 + 3, 1);
  };
  const absl::Status status = FirstError(*step_, 1);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("op FaultyGradient"), HasSubstr("tower_0/"), HasSubstr("device:CPU:0]")));
  EXPECT_EQ(session_->ReadVariable(weights_[1])->data<float>()[0], before);
}

TEST_P(RecheckTowers, AnAverageThatDiffersAmongTowersIsFound) {
  int faults = 4;
  Build([&](CollectiveSpec spec) -> absl::StatusOr<std::unique_ptr<Collective>> {
    return std::make_unique<FaultyCollective>(std::move(spec), &faults);
  });
  int run = 0;
  const absl::Status status = FirstError(*step_, 10, &run);
  EXPECT_EQ(run, 4);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("device:CPU:1 has other bits than output 0 of"), HasSubstr("device:CPU:0. A core")));
}

INSTANTIATE_TEST_SUITE_P(Runs, RecheckTowers, testing::Bool(),
                         [](const auto& info) { return info.param ? "OnOneThread" : "OnThreads"; });

// A training that draws numbers, updates variables and works in place has the same bits.
TEST_F(RecheckTest, TrainingIsTheSameWithIt) {
  const Output x = ops::RandomUniform(root_, {16, 24});
  const Variable w = GetVariable(root_, "w", {24, 8}, ConstantInitializer(0.1));
  const Output hidden = ops::Dropout(root_, ops::Relu(root_, ops::MatMul(root_, x, w.value())), 0.5);
  const Output loss = ops::Mean(root_, ops::Square(root_, hidden));
  const Node* const update =
      ops::AssignSub(root_, w, ops::Scale(root_, Gradients(root_, {loss}, {w.value()}).value()[0], 0.1)).node;
  std::vector<Tensor> values;
  for (const double share : {0.0, 1.0, 0.3}) {
    for (const int64_t fuse_from : {int64_t{0}, kFuseFrom}) {
      Open("cpu:1", {.fuse_elementwise_from = fuse_from, .recheck = share});
      Initialize();
      const auto step = Prepare({}, {loss}, absl::MakeConstSpan(&update, 1));
      ASSERT_TRUE(FirstError(*step, 7).ok());
      values.push_back(session_->ReadVariable(w)->Clone());
    }
  }
  for (const Tensor& value : values) {
    EXPECT_EQ(std::memcmp(value.raw(), values[0].raw(), value.bytes()), 0);
  }
}

TEST_F(RecheckTest, AShareIsFromZeroToOne) {
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  ASSERT_TRUE(Session::Create(graph_, devices, {.recheck = 1e-300})
                  .value()
                  ->Run({{x_, Tensor::Zeros(DType::kFloat32, {kElements})}}, {ops::Neg(root_, x_)})
                  .ok());
  for (const double share : {-0.1, 1.5, std::nan("")}) {
    EXPECT_THAT(Session::Create(graph_, devices, {.recheck = share}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SessionOptions::recheck is ")));
  }
}

}  // namespace
}  // namespace belfry
