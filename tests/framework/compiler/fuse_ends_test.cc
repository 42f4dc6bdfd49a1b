// Reductions and variable updates as the end of an element-wise pass.

#include "absl/strings/str_cat.h"
#include "ops/collective.h"
#include "ops/nn.h"
#include "ops/training.h"
#include "tests/framework/base/same_bits.h"
#include "tests/framework/compiler/fusion_fixture.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> MembersOf(const Plan& plan, const std::string& name) {
  std::vector<std::string> members;
  for (const ProgramNode& node : plan.program.nodes) {
    if (node.name != name) continue;
    for (const ProgramNode& member : node.body) members.push_back(member.op->name);
  }
  return members;
}

// Fused and unfused bits are equal, with two threads (cpu:1) and with one (cpu:2).
class FuseReductionsTest : public FusionFixture, public testing::WithParamInterface<std::pair<Shape, const char*>> {
 protected:
  Shape shape() const { return GetParam().first; }
  const Plan& Compare(const std::vector<Output>& fetches) {
    return FusionFixture::Compare(fetches, /*tolerance=*/0, GetParam().second);
  }
};

TEST_P(FuseReductionsTest, ALossIsOnePass) {
  const Output a = Feed("a", shape()), b = Feed("b", shape());
  const Output loss = ops::Mean(root_, ops::Square(root_, ops::Sub(root_, a, b)));
  const Output half = ops::L2Loss(root_, ops::Add(root_, a, b));
  const Plan& plan = Compare({loss, half});
  EXPECT_THAT(MembersOf(plan, loss.node->name()), ElementsAre("Sub", "Square", "Mean"));
  EXPECT_THAT(MembersOf(plan, half.node->name()), ElementsAre("Add", "L2Loss"));
}

TEST_P(FuseReductionsTest, OfRowsAndToARow) {
  const Output a = Feed("a", shape());
  const int axis = shape().rank() - 1;
  const Output each = ops::Max(root_, ops::Abs(root_, a), {axis}, /*keep_dims=*/true);
  const Output row = ops::Sum(root_, ops::Exp(root_, a), {0});
  const Plan& plan = Compare({each, row});
  if (shape()[axis] > 1) {
    EXPECT_THAT(MembersOf(plan, each.node->name()), ElementsAre("Abs", "Max"));
  }
  EXPECT_THAT(MembersOf(plan, row.node->name()), ElementsAre("Exp", "Sum"));
}

// The gradients of scale and offset are reductions of values from which x's gradient is computed.
TEST_P(FuseReductionsTest, GradientsOfRowsAreReducedAlong) {
  const Output x = Feed("x", shape()), scale = Feed("scale", {shape()[-1]}), offset = Feed("offset", {shape()[-1]});
  const Output y = ops::Tanh(root_, ops::BiasAdd(root_, ops::Mul(root_, x, scale), offset));
  const std::vector<Output> gradients = GradientsOf(y, {x, scale, offset});
  const Plan& plan = Compare(gradients);
  EXPECT_EQ(Count(plan, "SumLike") + Count(plan, "BiasAddGrad"), 0);
}

// In bfloat16, where lanes are widened.
TEST_P(FuseReductionsTest, OfSixteenBits) {
  const Output a = ops::Cast(root_, Feed("a", shape()), DType::kBFloat16);
  const Output sum = ops::Cast(root_, ops::Sum(root_, ops::Relu(root_, a)), DType::kFloat32);
  const Output row = ops::Cast(root_, ops::Mean(root_, ops::Neg(root_, a), {0}), DType::kFloat32);
  EXPECT_EQ(Count(Compare({sum, row}), "_Elementwise"), 2);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FuseReductionsTest,
                         testing::Values(std::pair(Shape{700, 100}, "cpu:1"), std::pair(Shape{700, 100}, "cpu:2"),
                                         std::pair(Shape{66'667, 1}, "cpu:1"), std::pair(Shape{13'001, 7}, "cpu:1"),
                                         std::pair(Shape{13'001, 7}, "cpu:2"), std::pair(Shape{9'001, 128}, "cpu:1"),
                                         std::pair(Shape{257, 256}, "cpu:1"), std::pair(Shape{1'000'003, 2}, "cpu:1")));

class FuseEndsTest : public FusionFixture {};

TEST_F(FuseEndsTest, ReductionsOfSeveralMembersGoWithTheLast) {
  const Output x = Feed("x", {700, 100});
  const Output a = ops::Abs(root_, x), b = ops::Square(root_, a), y = ops::Neg(root_, b);
  const Output sums = ops::Sum(root_, a, {0}), least = ops::Min(root_, b);
  const Plan& plan = Compare({sums, least, y}, 0);
  EXPECT_THAT(MembersOf(plan, y.node->name()), ElementsAre("Abs", "Sum", "Square", "Min", "Neg"));
}

// A member that needs the mean of another one must wait for all of it.
TEST_F(FuseEndsTest, WhatReadsAReductionComesAfterThePass) {
  const Output x = Feed("x", {700, 100});
  const Output a = ops::Abs(root_, x), mean = ops::Mean(root_, a);
  const Output y = ops::Neg(root_, ops::Sub(root_, a, mean));
  const Plan& plan = Compare({y}, 0);
  EXPECT_THAT(MembersOf(plan, mean.node->name()), ElementsAre("Abs", "Mean"));
  EXPECT_THAT(MembersOf(plan, y.node->name()), ElementsAre("Sub", "Neg"));
}

// The reduction's axes are those of the view.
TEST_F(FuseEndsTest, AReductionOfAViewEndsNoPass) {
  const Output x = Feed("x", {700, 100});
  const Output sum = ops::Sum(root_, ops::Reshape(root_, ops::Exp(root_, x), {7, 100, 100}), {1});
  const Output all = ops::Mean(root_, ops::Reshape(root_, ops::Exp(root_, x), {70'000}));
  EXPECT_EQ(Count(Compare({sum, all}, 0), "_Elementwise"), 0);
}

// Several groups of axes, and rows that fit in no cache.
TEST_F(FuseEndsTest, OtherReductionsRunByThemselves) {
  const Output x = Feed("x", {16, 5'000}), y = Feed("y", {10, 20, 30, 20});
  const Output wide = ops::Sum(root_, ops::Abs(root_, x), {0}), rows = ops::Sum(root_, ops::Neg(root_, x), {1});
  const Output mixed = ops::Sum(root_, ops::Abs(root_, y), {0, 2}), middle = ops::Max(root_, ops::Neg(root_, y), {1});
  EXPECT_EQ(Count(Compare({wide, rows, mixed, middle}, 0), "_Elementwise"), 0);
}

// A reduction that reads another one's result comes after the pass.
TEST_F(FuseEndsTest, AReductionOfAReduction) {
  const Output a = ops::Abs(root_, Feed("x", {1, 256}));
  const Output row = ops::Sum(root_, a, {0}), all = ops::Sum(root_, row), y = ops::Neg(root_, a);
  const Plan& plan = Compare({y, row, all}, 0, "cpu:1", /*fuse_elementwise_from=*/0);
  EXPECT_THAT(MembersOf(plan, row.node->name()), ElementsAre("Abs", "Sum"));
}

// A user's ops: the largest element, with a given number of outputs.
OpDef Largest(const char* name, int outputs, bool like) {
  const auto reduce = [](const KernelSpec& spec) -> std::optional<Reduction> {
    Reduction reduction{.chunk = 1 << 14, .state_bytes = 64};
    reduction.add = [](const void* x, int64_t begin, int64_t n, void* state, void*) {
      auto& most = *static_cast<float*>(state);
      const auto* in = static_cast<const float*>(x);
      if (begin % (1 << 14) == 0) most = in[0];
      for (int64_t i = 0; i < n; ++i) most = std::max(most, in[i]);
    };
    const int64_t chunks = (spec.inputs[0].shape.elements() + (1 << 14) - 1) >> 14;
    reduction.finish = [chunks](void* states, void* y) {
      float most = *static_cast<float*>(states);
      for (int64_t c = 1; c < chunks; ++c) most = std::max(most, static_cast<float*>(states)[c * 16]);
      *static_cast<float*>(y) = most;
    };
    if (spec.inputs.size() > 1 && spec.inputs[1].shape.rank() != 1) return std::nullopt;
    return reduction;
  };
  const auto make = [outputs](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
    return Kernel{[n = spec.inputs[0].shape.elements(), outputs](const KernelContext& at) {
      *at.output<float>(0) = *std::max_element(at.input<float>(0), at.input<float>(0) + n);
      if (outputs > 1) *at.output<float>(1) = 42;
      return absl::OkStatus();
    }};
  };
  OpDef op = {.name = name,
              .inputs = {{.name = "x"}},
              .outputs = {{.name = "y"}},
              .types = {{"T", kWideFloatTypes}},
              .shape = [outputs](const ShapeArgs&) -> absl::StatusOr<std::vector<Shape>> {
                return std::vector<Shape>(outputs);
              },
              .not_differentiable = true,
              .kernels = {{.device_type = "CPU", .dtype = DType::kFloat32, .make = make, .reduce = reduce}}};
  if (outputs > 1) op.outputs.push_back({.name = "z"});
  if (like) op.inputs.push_back({.name = "like", .shape_only = true});
  return op;
}

TEST_F(FuseEndsTest, AReductionOfTheUser) {
  registry_.Add(Largest("Largest", 1, false));
  registry_.Add(Largest("LargestAndMore", 2, false));
  registry_.Add(Largest("LargestLike", 1, true));
  const Output a = ops::Abs(root_, Feed("x", {70'001})), like = Feed("like", {3});
  const Output b = ops::Neg(root_, a), c = ops::Exp(root_, b);
  const Output largest = root_.Add("Largest", {a}), third = root_.Add("LargestLike", {c, like});
  const Node* two = root_.AddNode("LargestAndMore", {b});
  const Plan& plan = Compare({largest, two->output(0), two->output(1), third}, 0);
  EXPECT_EQ(step_->fetched(2).scalar<float>(), 42);
  EXPECT_EQ(Count(plan, "Largest"), 0);
  EXPECT_EQ(Count(plan, "LargestAndMore"), 1);
}

class FuseUpdatesTest : public FusionFixture {
 protected:
  static constexpr int64_t kRows = 300, kWidth = 300;

  Variable Weights(absl::string_view name, double value = 0.5, DType dtype = DType::kFloat32) {
    return GetVariable(root_, name, {kRows, kWidth}, ConstantInitializer(value), {.dtype = dtype});
  }
  // Checks that two steps with and without fusion leave the same bits in the variables. Returns the fused plan.
  const Plan& CompareUpdates(const std::vector<Variable>& variables, const std::vector<const Node*>& updates,
                             const std::vector<Output>& fetches = {}, absl::string_view devices = "cpu:1") {
    std::vector<Tensor> results[2];
    for (const bool fuse : {false, true}) {
      step_.reset();
      Open(devices, {.fuse = fuse});
      Initialize();
      step_ = Prepare(feeds_, fetches, updates);
      for (int turn = 0; turn < 2; ++turn) {
        EXPECT_EQ(step_->Run(values_), absl::OkStatus());
        for (size_t i = 0; i < fetches.size(); ++i)
          results[fuse].push_back(step_->fetched(static_cast<int>(i)).Clone());
      }
      for (const Variable& variable : variables) results[fuse].push_back(*session_->ReadVariable(variable));
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      EXPECT_TRUE(SameBits(results[0][i], results[1][i])) << "result " << i;
    }
    return step_->plan();
  }
};

TEST_F(FuseUpdatesTest, ClippingAndDecayAreInTheUpdate) {
  const Variable v = Weights("v"), slot = Weights("slot", 0);
  const Output gradient = Feed("gradient", {kRows, kWidth});
  const Output regularized = ops::Add(root_, ops::ClipByValue(root_, gradient, -1, 1), ops::Scale(root_, v, 0.01));
  const Output norm = ops::GlobalNorm(root_, {regularized}), clipped = ops::ClipToNorm(root_, regularized, norm, 0.1);
  const Output rate = ops::Const(root_, 0.5f);
  const Output update = ops::ApplyMomentum(root_, v, slot, rate, clipped, {.weight_decay = 0.1});
  const Plan& plan = CompareUpdates({v, slot}, {update.node}, {norm});
  EXPECT_THAT(MembersOf(plan, update.node->name()), ElementsAre("ClipToNorm", "ApplyMomentum"));
  EXPECT_THAT(MembersOf(plan, regularized.node->name()).size(), 3u);
}

TEST_F(FuseUpdatesTest, AllRules) {
  const Output gradient = Feed("gradient", {kRows, kWidth}), rate = ops::Const(root_, 0.25f);
  const Output step = ops::Const(root_, int64_t{3});
  std::vector<Variable> variables;
  const auto make = [&](double value) {
    return variables.emplace_back(Weights(absl::StrCat("v", variables.size()), value));
  };
  const auto half = [&] { return ops::Scale(root_, gradient, 0.5); };
  std::vector<Output> updates;
  {
    const Variable v = make(1), m = make(0), s = make(0);
    updates.push_back(ops::ApplyAdam(root_, v, m, s, step, rate, half()));
  }
  {
    const Variable v = make(1), ms = make(1), mom = make(0);
    updates.push_back(ops::ApplyRMSProp(root_, v, ms, mom, rate, ops::Neg(root_, gradient)));
  }
  {
    const Variable v = make(1), a = make(1);
    updates.push_back(ops::ApplyAdagrad(root_, v, a, rate, ops::Abs(root_, gradient)));
  }
  updates.push_back(ops::ApplyGradientDescent(root_, make(1), rate, ops::Square(root_, gradient)));
  updates.push_back(ops::ApplyMovingAverage(root_, make(1), step, ops::Exp(root_, gradient)));
  updates.push_back(ops::AssignAdd(root_, make(1), ops::Tanh(root_, gradient)));
  updates.push_back(ops::AssignSub(root_, make(1), ops::Mul(root_, rate, gradient)));
  std::vector<const Node*> targets;
  for (const Output& update : updates) targets.push_back(update.node);
  const Plan& plan = CompareUpdates(variables, targets);
  for (const Output& update : updates)
    EXPECT_EQ(MembersOf(plan, update.node->name()).size(), 2u) << update.node->name();
}

TEST_F(FuseUpdatesTest, AConditionHolds) {
  const Variable v = Weights("v"), w = Weights("w");
  const Output gradient = Feed("gradient", {kRows, kWidth}), rate = ops::Const(root_, 0.5f);
  const Output yes = ops::Greater(root_, ops::Const(root_, 2.f), rate),
               no = ops::Greater(root_, rate, ops::Const(root_, 2.f));
  const Output first = ops::ApplyGradientDescent(root_.OnlyIf(yes), v, rate, ops::Scale(root_, gradient, 3));
  const Output second = ops::AssignAdd(root_.OnlyIf(no), w, ops::Scale(root_, gradient, 4));
  const Plan& plan = CompareUpdates({v, w}, {first.node, second.node});
  EXPECT_EQ(Count(plan, "_Elementwise"), 2);
  EXPECT_EQ(session_->ReadVariable(w)->data<float>()[7], 0.5f);
}

// Gradients of towers on other devices, in bfloat16: summed, divided, cast and applied in one pass.
TEST_F(FuseUpdatesTest, TheMeanOfTowersIsInTheUpdate) {
  const Variable v = Weights("v");
  std::vector<Output> gradients;
  for (int tower = 0; tower < 2; ++tower) {
    const Scope scope = root_.Device(absl::StrCat("/cpu:", tower));
    gradients.push_back(
        ops::Cast(scope, ops::Softmax(scope, Feed(absl::StrCat("g", tower), {kRows, kWidth})), DType::kBFloat16));
  }
  const Scope cpu = root_.Device("/cpu:0");
  const Output mean = ops::Scale(cpu, ops::AddN(cpu, gradients), 0.5);
  const Output update = ops::ApplyGradientDescent(cpu, v, ops::Const(cpu, 0.1f), ops::Cast(cpu, mean, DType::kFloat32));
  const Plan& plan = CompareUpdates({v}, {update.node}, {}, "cpu:2");
  EXPECT_THAT(MembersOf(plan, update.node->name()),
              ElementsAre("Cast", "AddN", "Scale", "Cast", "ApplyGradientDescent"));
}

// Later readers of the variable read its storage; earlier readers saw the old value.
TEST_F(FuseUpdatesTest, ReadersKeepTheirPlaces) {
  const Variable v = Weights("v"), w = Weights("w");
  const Output by = ops::Scale(root_, Feed("x", {kRows, kWidth}), 0.5);
  const Output read = ops::AssignAdd(root_, v, by);
  const Output after = ops::Neg(root_, read);
  const Output twice = ops::Scale(root_, w, 2), size = ops::Abs(root_, by);
  const Output update = ops::AssignAdd(root_, w, ops::Add(root_, twice, size));
  const Output before = ops::L2Loss(root_, w), later = ops::L2Loss(root_.ControlDependencies({update}), w);
  const Plan& plan = CompareUpdates({v, w}, {}, {after, before, later});
  EXPECT_THAT(MembersOf(plan, read.node->name()), IsEmpty());  // its result is read
  EXPECT_THAT(MembersOf(plan, update.node->name()), ElementsAre("Scale", "Abs", "Add", "AssignAdd"));
}

// An element of the variable would be read again for each block, also behind its own update.
TEST_F(FuseUpdatesTest, ReadsNoOtherElementsOfTheVariable) {
  const Variable v = Weights("v");
  const Output first = ops::FlatSlice(root_, v, 0, 1);
  const Output update = ops::AssignAdd(root_, v, ops::Exp(root_, ops::Mul(root_, Feed("x", {kRows, kWidth}), first)));
  const Plan& plan = CompareUpdates({v}, {update.node});
  EXPECT_THAT(MembersOf(plan, update.node->name()), ElementsAre("Exp", "AssignAdd"));
}

// Nodes that wait for a member wait for the pass; so do those after the mean over a single tower.
TEST_F(FuseUpdatesTest, TheGradientOfOneTower) {
  const Variable v = Weights("v");
  const Output decayed = ops::Add(root_, Feed("x", {kRows, kWidth}), ops::Scale(root_, v, 0.5));
  const Output count = ops::Const(root_, 3.0f);
  const auto mean = ops::AllReduceMean(root_, {.group = "g", .rank = 0, .size = 1}, count, {decayed});
  ASSERT_EQ(mean.size(), 1u);
  const Output update = ops::AssignSub(root_, v, mean[0]);
  const Node* after = ops::Group(root_, {decayed, update});
  const Plan& plan = CompareUpdates({v}, {after, mean[0].node});
  EXPECT_THAT(MembersOf(plan, update.node->name()), ElementsAre("Scale", "Add", "AssignSub"));
}

TEST_F(FuseUpdatesTest, WhoWaitsForAViewWaitsForThePass) {
  const Variable v = Weights("v");
  const Output a = ops::Scale(root_, Feed("x", {kRows, kWidth}), 2);
  const Output view = ops::Reshape(root_, ops::Reshape(root_, a, {kRows * kWidth}), {kRows, kWidth});
  const Output update = ops::AssignAdd(root_, v, view);
  const Plan& plan = CompareUpdates({v}, {ops::Group(root_, {view, update})});
  EXPECT_THAT(MembersOf(plan, update.node->name()), ElementsAre("Scale", "AssignAdd"));
}

// The collective's other rank waits for an update of a variable that a member reads.
TEST_F(FuseUpdatesTest, AcrossACollective) {
  const Scope here = root_.Device("/cpu:0"), there = root_.Device("/cpu:1");
  const Variable v = Weights("v"), w = GetVariable(there, "w", {kRows, kWidth}, ConstantInitializer(2));
  const Output x = Feed("x", {kRows, kWidth}), weight = ops::Const(root_, 1.0f);
  const Output written = ops::AssignAdd(there, w, x);
  const Output late = ops::Softmax(there, ops::Mul(there.ControlDependencies({written}), w, x));
  const auto first = ops::AllReduceMean(here, {.group = "g", .rank = 0, .size = 2}, weight, {ops::Softmax(here, x)});
  const auto second = ops::AllReduceMean(there, {.group = "g", .rank = 1, .size = 2}, weight, {late});
  const Output update = ops::AssignAdd(here, v, ops::Add(here, ops::Scale(here, w, 3), first[0]));
  CompareUpdates({v, w}, {update.node, written.node}, {second[0]}, "cpu:2");
}

// If other nodes could see results of the pass, they would have to wait for it and the update at its end.
TEST_F(FuseUpdatesTest, NothingElseIsSeenOfThePass) {
  const Variable v = Weights("v");
  const Output gradient = ops::Scale(root_, Feed("x", {kRows, kWidth}), 0.5);
  const Output update = ops::AssignAdd(root_, v, ops::Neg(root_, gradient));
  const Output sees = ops::Softmax(root_, ops::Mul(root_, gradient, v));
  const Plan& plan = CompareUpdates({v}, {update.node}, {sees, gradient});
  EXPECT_THAT(MembersOf(plan, update.node->name()), ElementsAre("Neg", "AssignAdd"));
}

// Each pass reads the variable that the other one writes.
TEST_F(FuseUpdatesTest, VariablesThatFollowEachOther) {
  const Variable v = Weights("v", 1), w = Weights("w", 2);
  const Output first = ops::AssignAdd(root_, v, ops::Scale(root_, w, 0.5));
  const Output second = ops::AssignAdd(root_, w, ops::Scale(root_, v, 0.25));
  const Plan& plan = CompareUpdates({v, w}, {first.node, second.node});
  EXPECT_EQ(Count(plan, "_Elementwise"), 2);
}

TEST_F(FuseUpdatesTest, AVariableMustBeInitializedFirst) {
  const Variable v = Weights("v");
  const Output update = ops::AssignAdd(root_, v, ops::Scale(root_, Feed("x", {kRows, kWidth}), 0.5));
  Open("cpu:1");
  step_ = Prepare(feeds_, {}, {update.node});
  EXPECT_EQ(Count(step_->plan(), "_Elementwise"), 1);
  EXPECT_THAT(step_->Run(values_).message(), testing::HasSubstr("v"));
  EXPECT_EQ(step_->Run(values_).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace belfry
