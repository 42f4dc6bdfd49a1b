// Generated kernels: fused plans against unfused ones, to the last bit, on GPUs that compile kernels.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"
#include "ops/training.h"
#include "tests/framework/runtime/gpu_fusion_fixture.h"

namespace belfry {
namespace {

// A random op of one or two operands.
Output RandomOp(const Scope& scope, uint32_t kind, Output a, Output b) {
  switch (kind % 20) {
    case 0: return ops::Add(scope, a, b);
    case 1: return ops::Sub(scope, a, b);
    case 2: return ops::Mul(scope, a, b);
    case 3: return ops::Div(scope, a, b);
    case 4: return ops::Maximum(scope, a, b);
    case 5: return ops::Minimum(scope, a, b);
    case 6: return ops::Relu(scope, a);
    case 7: return ops::Exp(scope, a);
    case 8: return ops::Tanh(scope, a);
    case 9: return ops::Sigmoid(scope, a);
    case 10: return ops::Scale(scope, a, -0.375);
    case 11: return ops::Square(scope, a);
    case 12: return ops::Gelu(scope, a);
    case 13: return ops::Abs(scope, a);
    case 14: return ops::Sqrt(scope, a);
    case 15: return ops::ClipByValue(scope, a, -2, 0.75);
    case 16: return ops::Select(scope, ops::Less(scope, a, b), a, ops::Sub(scope, a, b));
    case 17: return ops::AddN(scope, {a, ops::Mul(scope, a, b), a});
    case 18: return ops::Cast(scope, ops::Cast(scope, a, DType::kBFloat16), a.dtype());
    default: return ops::LeakyRelu(scope, a, 0.2);
  }
}

TEST_F(GpuFusion, RandomGraphs) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (const Shape& shape : {Shape({1}), Shape({7}), Shape({4097}), Shape({3, 200}), Shape({5, 33, 8})}) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", shape.ToString()));
      const Shape row = {shape[-1]};
      std::vector<Output> values = {Feed(dtype, shape), Feed(dtype, shape), Feed(dtype, row), Feed(dtype, {})};
      for (int i = 0; i < 8; ++i) {
        // The left operand has the whole shape.
        std::vector<Output> whole;
        std::copy_if(values.begin(), values.end(), std::back_inserter(whole),
                     [&](const Output& value) { return value.shape() == shape; });
        values.push_back(
            RandomOp(scope_, random_(), whole[random_() % whole.size()], values[random_() % values.size()]));
        // Operands of the other shapes give results of this one only with ops of two operands.
        if (values.back().shape() != shape) values.pop_back();
      }
      std::vector<Output> fetches(values.end() - 2, values.end());
      Compare(fetches);
    }
  }
}

// All ops with one or two operands and without attributes, in one kernel.
TEST_F(GpuFusion, AllOps) {
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt32, DType::kInt64}) {
    SCOPED_TRACE(DTypeName(dtype));
    const Output x = Feed(dtype, {517}), y = Feed(dtype, {517});
    std::vector<Output> results;
    for (const auto& [name, op] : graph_.registry().ops()) {
      const size_t operands = op.inputs.size();
      if (op.element_code == nullptr || !op.elementwise || operands > 2 || op.inputs[0].list || op.types.size() != 1 ||
          op.stateful || op.inputs.back().shape_only || op.FindKernel("GPU", dtype) == nullptr) {
        continue;
      }
      if (std::any_of(op.attrs.begin(), op.attrs.end(), [](const AttrDef& attr) { return attr.required; })) continue;
      const Output result = operands == 1 ? scope_.Add(name, {x}) : scope_.Add(name, {x, y});
      ASSERT_TRUE(graph_.status().ok()) << name << ": " << graph_.status();
      results.push_back(result.dtype() == dtype ? result : ops::Cast(scope_, result, dtype));
    }
    ASSERT_GT(results.size(), 10u);
    const Output sum = ops::AddN(scope_, results);
    results.push_back(sum);
    EXPECT_GT(Compare(results), 0);
  }
}

TEST_F(GpuFusion, AChainIsOneKernel) {
  const Output x = Feed(DType::kBFloat16, {31, 96}), bias = Feed(DType::kBFloat16, {96});
  const Output y = ops::Relu(scope_, ops::Scale(scope_, ops::Add(scope_, ops::Square(scope_, x), bias), 0.5));
  EXPECT_EQ(Compare({y}), 1);
}

// Division is in chains, whatever the shape of its operands.
TEST_F(GpuFusion, StretchedOperandsOfDivisions) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt32}) {
    for (const Shape& shape : {Shape({6, 1, 7}), Shape({6, 5, 1}), Shape({1, 5, 1}), Shape({5, 1}), Shape({7})}) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", shape.ToString()));
      const Output x = Feed(dtype, {6, 5, 7}), y = Feed(dtype, shape);
      EXPECT_GT(Compare({ops::Neg(scope_, ops::FloorDiv(scope_, ops::Square(scope_, x), y))}), 0);
    }
  }
}

TEST_F(GpuFusion, AMatrixIsReadTransposed) {
  const Output x = Feed(DType::kFloat32, {17, 5, 33});
  const Output y = ops::Cast(scope_, ops::Transpose(scope_, x, {2, 0, 1}), DType::kFloat16);
  EXPECT_EQ(Compare({y}), 1);
}

TEST_F(GpuFusion, WhatAKernelWouldHaveToWaitForRunsBefore) {
  const Output x = Feed(DType::kFloat32, {40, 30});
  // A transposition of a result, and the norm of results.
  const Output y = ops::Neg(scope_, ops::Transpose(scope_, ops::Square(scope_, x), {1, 0}));
  const Output z = ops::Scale(scope_, x, 0.001),
               clipped = ops::ClipToNorm(scope_, z, ops::GlobalNorm(scope_, {z}), 0.5);
  EXPECT_GT(Compare({y, clipped}), 0);
}

TEST_F(GpuFusion, WeightsAreConvertedInOneLaunch) {
  std::vector<Output> converted;
  for (int i = 0; i < 40; ++i) {
    const Variable weight = GetVariable(scope_, absl::StrCat("w", i), {3, 3, i, 5}, UniformInitializer(-1, 1));
    converted.push_back(ops::Cast(scope_, ops::Transpose(scope_, weight, {3, 0, 1, 2}), DType::kBFloat16));
  }
  EXPECT_EQ(Compare(converted), 1);
}

TEST_F(GpuFusion, DecayClippingAndConversionAreInOneUpdate) {
  std::vector<Output> gradients;
  std::vector<Variable> weights;
  for (int i = 0; i < 5; ++i) {
    weights.push_back(GetVariable(scope_, absl::StrCat("w", i), {3, 5 + i, 7}, UniformInitializer(-1, 1)));
    const Output gradient = Feed(DType::kBFloat16, {7, 3, 5 + i});
    const Output wide = ops::Cast(scope_, ops::Transpose(scope_, gradient, {1, 2, 0}), DType::kFloat32);
    gradients.push_back(ops::AddN(scope_, {wide, ops::Scale(scope_, weights.back(), 0.125)}));
  }
  const Output norm = Feed(DType::kFloat32, {});
  std::vector<Output> updates;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Variable m = GetVariable(scope_, absl::StrCat("m", i), weights[i].shape(), ConstantInitializer(0.5));
    const Variable s = GetVariable(scope_, absl::StrCat("s", i), weights[i].shape(), ConstantInitializer(0.25));
    updates.push_back(ops::ApplyAdam(scope_, weights[i], m, s, ops::Const<int64_t>(scope_, 3),
                                     ops::Const(scope_, 0.25f), ops::ClipToNorm(scope_, gradients[i], norm, 0.5)));
  }
  EXPECT_EQ(Compare({}, {ops::Group(scope_, updates)}), 1);
}

// Threads that update other elements may come first.
TEST_F(GpuFusion, AnUpdateReadsNoOtherElementsOfItsVariable) {
  const Variable square = GetVariable(scope_, "square", {90, 90}, UniformInitializer(-1, 1));
  const Variable rows = GetVariable(scope_, "rows", {90, 100}, UniformInitializer(-1, 1));
  const Variable parts = GetVariable(scope_, "parts", {9000}, UniformInitializer(-1, 1));
  const Output row = ops::FlatSlice(scope_, rows, 0, 100), number = ops::FlatSlice(scope_, parts, 0, 1);
  const std::vector<Output> updates = {
      ops::AssignAdd(scope_, square, ops::Scale(scope_, ops::Transpose(scope_, square, {1, 0}), 0.5)),
      ops::AssignSub(scope_, rows, ops::Exp(scope_, ops::Mul(scope_, Feed(DType::kFloat32, {90, 100}), row))),
      ops::AssignAdd(scope_, parts, ops::Tanh(scope_, ops::Mul(scope_, Feed(DType::kFloat32, {9000}), number)))};
  EXPECT_GT(Compare({}, {ops::Group(scope_, updates)}), 0);
}

TEST_F(GpuFusion, AnUpdateReadsItsOwnElements) {
  const Variable v = GetVariable(scope_, "v", {90, 90}, UniformInitializer(-1, 1));
  const Output flat = ops::Reshape(scope_, v, {8100});
  const Output by = ops::Mul(scope_, ops::Reshape(scope_, ops::Square(scope_, flat), {90, 90}), v);
  EXPECT_EQ(Compare({}, {ops::AssignSub(scope_, v, by).node}), 1);
}

// Variables that are computed from each other, from before the step.
TEST_F(GpuFusion, UpdatesReadOtherVariables) {
  std::vector<Variable> v;
  for (int i = 0; i < 4; ++i) {
    v.push_back(GetVariable(scope_, absl::StrCat("v", i), {70, 70}, UniformInitializer(-1, 1)));
  }
  std::vector<Output> updates;
  for (size_t i = 0; i < v.size(); ++i) {
    updates.push_back(ops::AssignAdd(scope_, v[i], ops::Scale(scope_, v[(i + 1) % v.size()], 0.5)));
  }
  const Output read = ops::Cast(scope_, v[2], DType::kBFloat16);
  EXPECT_GT(Compare({read}, {ops::Group(scope_, updates)}), 0);
}

// The conversion of a variable before its update is not joined with one behind that of another.
TEST_F(GpuFusion, ConversionsBeforeAndBehindUpdates) {
  std::vector<Output> fetches;
  std::vector<const Node*> targets;
  for (int i = 0; i < 3; ++i) {
    const Variable v = GetVariable(scope_, absl::StrCat("v", i), {33, 5}, UniformInitializer(-1, 1));
    fetches.push_back(ops::Cast(scope_, v, DType::kFloat16));
    const Output assigned = ops::Assign(scope_, v, ops::Softmax(scope_, Feed(DType::kFloat32, {33, 5})));
    fetches.push_back(ops::Cast(scope_, assigned, DType::kFloat16));
  }
  EXPECT_GT(Compare(fetches, targets), 0);
}

TEST_F(GpuFusion, FetchedAndEmptyResults) {
  const Variable v = GetVariable(scope_, "v", {20, 9}, UniformInitializer(-1, 1));
  const Variable none = GetVariable(scope_, "none", {0, 9}, UniformInitializer(-1, 1));
  const Output updated = ops::AssignAdd(scope_, v, ops::Neg(scope_, Feed(DType::kFloat32, {20, 9})));
  const Output x = Feed(DType::kFloat32, {0, 9});
  const Output empty = ops::Relu(scope_, ops::Add(scope_, x, Feed(DType::kFloat32, {9})));
  const Output update_of_none = ops::AssignAdd(scope_, none, ops::Neg(scope_, ops::Square(scope_, x)));
  Compare({updated, empty}, {update_of_none.node});
}

// A node that waits for a member waits for the group, and a member that waits makes the group wait.
TEST_F(GpuFusion, ControlInputs) {
  const Output x = Feed(DType::kFloat32, {64, 70});
  const Variable v = GetVariable(scope_, "v", {64, 70}, UniformInitializer(-1, 1));
  const Output a = ops::Square(scope_, ops::Add(scope_, x, v));
  const Output update = ops::AssignAdd(scope_.ControlDependencies({a}), v, ops::Scale(scope_, x, 2));
  const Output after = ops::Neg(scope_.ControlDependencies({update}), ops::Mul(scope_, a, v));
  const Output last = ops::Sub(scope_, after, ops::Abs(scope_, x));
  EXPECT_GT(Compare({last, a}), 0);
}

}  // namespace
}  // namespace belfry
