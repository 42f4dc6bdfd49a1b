// Generated kernels: fused plans against unfused ones, to the last bit, on GPUs that compile kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"
#include "ops/training.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/main/seed.h"

namespace belfry {
namespace {

class GpuFusion : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<DeviceSet> devices = OpenTestGpus(1);
    if (!devices.ok()) GTEST_SKIP() << devices.status().message();
    devices_ = std::make_unique<DeviceSet>(*std::move(devices));
    if (!devices_->device(1).CompilesKernels()) GTEST_SKIP() << "this GPU compiles no kernels";
  }

  // A placeholder that is fed random numbers, some of which are NaN, infinite, zero or subnormal.
  Output Feed(DType dtype, const Shape& shape) {
    feeds_.push_back({ops::Placeholder(scope_, dtype, shape), shape});
    Tensor values(dtype, shape);
    std::normal_distribution<double> normal;
    constexpr double kSpecial[] = {0.0, -0.0, 1e-41, 1e-7, 6e4, 1e38};
    for (int64_t i = 0; i < values.elements(); ++i) {
      const uint32_t kind = random_() % 64;
      double x = normal(random_);
      if (kind < 6) x = kSpecial[kind];
      if (kind == 6) x = std::numeric_limits<double>::quiet_NaN();
      if (kind == 7) x = -std::numeric_limits<double>::infinity();
      switch (dtype) {
        case DType::kFloat32: values.data<float>()[i] = static_cast<float>(x); break;
        case DType::kFloat64: values.data<double>()[i] = x; break;
        case DType::kFloat16: values.data<Half>()[i] = static_cast<Half>(static_cast<float>(x)); break;
        case DType::kBFloat16: values.data<BFloat16>()[i] = static_cast<BFloat16>(static_cast<float>(x)); break;
        case DType::kInt64: values.data<int64_t>()[i] = static_cast<int32_t>(random_()); break;
        default: values.data<int32_t>()[i] = static_cast<int32_t>(random_()); break;
      }
    }
    values_.push_back(std::move(values));
    return feeds_.back().output;
  }

  // The fetches and, after them, the variables, of one run with or without fusion. `nodes` gets the plan's ops.
  std::vector<Tensor> Run(const std::vector<Output>& fetches, const std::vector<const Node*>& targets, bool fuse,
                          std::vector<std::string>* nodes) {
    auto session = Session::Create(graph_, *devices_, {.fuse = fuse});
    EXPECT_TRUE(session.ok()) << session.status();
    const Node* const initialize = InitializeVariables(scope_);
    EXPECT_TRUE((*session)->RunTarget(initialize).ok());
    auto step = (*session)->Prepare(feeds_, fetches, targets);
    EXPECT_TRUE(step.ok()) << step.status();
    std::vector<Tensor> results;
    if (!step.ok()) return results;
    for (const ProgramNode& node : (*step)->plan().program.nodes) nodes->push_back(node.op->name);
    const absl::Status status = (*step)->Run(values_);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE((*step)->Wait().ok());
    for (size_t i = 0; i < fetches.size(); ++i) results.push_back((*step)->fetched(static_cast<int>(i)));
    for (const Variable& variable : graph_.variables()) results.push_back((*session)->ReadVariable(variable).value());
    return results;
  }

  // Checks that fusion changes no bit, and returns the number of generated kernels.
  int64_t Compare(const std::vector<Output>& fetches, const std::vector<const Node*>& targets = {}) {
    std::vector<std::string> fused, apart;
    const std::vector<Tensor> actual = Run(fetches, targets, true, &fused);
    const std::vector<Tensor> expected = Run(fetches, targets, false, &apart);
    EXPECT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) ExpectSame(actual[i], expected[i], i);
    EXPECT_EQ(Generated(apart), 0);
    return Generated(fused);
  }

  static int64_t Generated(const std::vector<std::string>& nodes) {
    return std::count(nodes.begin(), nodes.end(), "_Elementwise") + std::count(nodes.begin(), nodes.end(), "_Joined");
  }

  // The same bits, but that NaNs are equal.
  static void ExpectSame(const Tensor& a, const Tensor& b, size_t which) {
    ASSERT_EQ(a.bytes(), b.bytes());
    const std::vector<double> x = a.ToDoubles(), y = b.ToDoubles();
    for (size_t i = 0; i < x.size(); ++i) {
      const bool nan = std::isnan(x[i]) && std::isnan(y[i]);
      ASSERT_TRUE(nan || (x[i] == y[i] && std::signbit(x[i]) == std::signbit(y[i])))
          << "result " << which << "[" << i << "]: " << x[i] << " and " << y[i];
    }
  }

  std::mt19937 random_{TestSeed()};
  Graph graph_{BuiltinOps()};
  Scope scope_ = Scope(graph_).Device("/gpu:0");
  std::vector<FeedSpec> feeds_;
  std::vector<Tensor> values_;
  std::unique_ptr<DeviceSet> devices_;
};

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
