// Generated kernels against CPUs, on sizes that no pack divides, long rows, and numbers at the ends of their range.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/dtype.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"
#include "ops/training.h"
#include "tests/framework/runtime/gpu_fusion_fixture.h"

namespace belfry {
namespace {

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

// Sizes around those of packs, of a thread's packs and of a block's, and rows that take several blocks.
std::vector<Shape> OddShapes() { return {{1}, {17}, {4095}, {20000}, {3, 4097}, {2, 20000}, {129, 3}, {5, 33, 8}}; }

struct Operands {
  Output x, y, row, number;
};

class GpuFusionValues : public GpuFusion {
 protected:
  Operands FeedOperands(DType dtype, const Shape& shape) {
    return {Feed(dtype, shape), Feed(dtype, shape), Feed(dtype, {shape[-1]}), Feed(dtype, {})};
  }

  // A few roundings, relative to numbers beyond 1 and absolute below.
  static double Tolerance(DType dtype) {
    switch (dtype) {
      case DType::kFloat32: return 2e-6;
      case DType::kFloat64: return 1e-14;
      case DType::kFloat16: return 2e-3;
      default: return 1.6e-2;
    }
  }
  static void ExpectNear(const Tensor& a, const Tensor& b, double tolerance, size_t which) {
    ASSERT_EQ(a.bytes(), b.bytes());
    const std::vector<double> x = a.ToDoubles(), y = b.ToDoubles();
    for (size_t i = 0; i < x.size(); ++i) {
      const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
      ASSERT_TRUE(same || std::abs(x[i] - y[i]) <= tolerance * std::max(1.0, std::abs(y[i])))
          << "result " << which << "[" << i << "]: " << x[i] << " and " << y[i];
    }
  }

  // The results of the same ops on a CPU, one by one.
  std::vector<Tensor> OnCpu(const std::vector<Output>& fetches) {
    std::vector<std::string> nodes;
    return Run(fetches, {}, /*fuse=*/false, &nodes);
  }

  const Scope cpu_ = Scope(graph_).Device("/cpu:0");
};

// Each result is rounded once, as IEEE 754 says, so the bits are those of CPUs.
std::vector<Output> ExactChain(const Scope& s, const Operands& of) {
  const Output sum = ops::Add(s, of.x, of.row), scaled = ops::Mul(s, sum, of.number);
  const Output chosen = ops::Select(s, ops::Less(s, of.x, of.y), scaled, ops::Sub(s, of.y, of.x));
  const Output root = ops::Sqrt(s, ops::Abs(s, ops::Div(s, chosen, of.row)));
  const DType other = of.x.dtype() == DType::kFloat32 ? DType::kBFloat16 : DType::kFloat32;
  return {sum, ops::Relu(s, scaled), ops::Neg(s, root), ops::Cast(s, ops::Square(s, chosen), other)};
}

TEST_F(GpuFusionValues, ChainsHaveTheBitsOfCpus) {
  for (const DType dtype : kFloats) {
    for (const Shape& shape : OddShapes()) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", shape.ToString()));
      const Operands operands = FeedOperands(dtype, shape);
      const std::vector<Output> fetches = ExactChain(scope_, operands);
      EXPECT_GT(Compare(fetches), 0);
      std::vector<std::string> nodes;
      const std::vector<Tensor> actual = Run(fetches, {}, /*fuse=*/true, &nodes);
      const std::vector<Tensor> expected = OnCpu(ExactChain(cpu_, operands));
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) ExpectSame(actual[i], expected[i], i);
    }
  }
}

// A result of each function, which both compute to a few units in the last place.
std::vector<Output> SmoothChain(const Scope& s, const Operands& of) {
  const Output sum = ops::Add(s, of.x, of.row);
  return {
      ops::Exp(s, sum),      ops::Tanh(s, sum), ops::Sigmoid(s, sum), ops::Gelu(s, of.x), ops::Log(s, ops::Abs(s, sum)),
      ops::Softplus(s, sum), ops::Elu(s, sum)};
}

TEST_F(GpuFusionValues, SmoothFunctionsAgreeWithCpus) {
  for (const DType dtype : kFloats) {
    for (const Shape& shape : {Shape({13}), Shape({4097}), Shape({2, 20000}), Shape({3, 4097})}) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", shape.ToString()));
      const Operands operands = FeedOperands(dtype, shape);
      const std::vector<Output> fetches = SmoothChain(scope_, operands);
      EXPECT_GT(Compare(fetches), 0);
      std::vector<std::string> nodes;
      const std::vector<Tensor> actual = Run(fetches, {}, /*fuse=*/true, &nodes);
      const std::vector<Tensor> expected = OnCpu(SmoothChain(cpu_, operands));
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) ExpectNear(actual[i], expected[i], Tolerance(dtype), i);
    }
  }
}

struct Rule {
  const char* name;
  int slots;
  Output (*add)(const Scope& scope, const std::vector<Variable>& v, Output rate, Output g);
};

const Rule kRules[] = {
    {"GradientDescent", 0,
     [](const Scope& s, const std::vector<Variable>& v, Output rate, Output g) {
       return ops::ApplyGradientDescent(s, v[0], rate, g, {.weight_decay = 0.125});
     }},
    {"Momentum", 1,
     [](const Scope& s, const std::vector<Variable>& v, Output rate, Output g) {
       return ops::ApplyMomentum(s, v[0], v[1], rate, g, {.use_nesterov = true});
     }},
    {"RMSProp", 2,
     [](const Scope& s, const std::vector<Variable>& v, Output rate, Output g) {
       return ops::ApplyRMSProp(s, v[0], v[1], v[2], rate, g);
     }},
    {"AdamW", 2,
     [](const Scope& s, const std::vector<Variable>& v, Output rate, Output g) {
       return ops::ApplyAdamW(s, v[0], v[1], v[2], ops::Const<int64_t>(s, 3), rate, g, {.weight_decay = 0.25});
     }},
    {"AssignAdd", 0,
     [](const Scope& s, const std::vector<Variable>& v, Output, Output g) {
       return ops::AssignAdd(s, v[0], ops::Mul(s, ops::Neg(s, g), v[0]));
     }},
};

class GpuUpdateValues : public GpuFusionValues, public testing::WithParamInterface<Rule> {
 protected:
  // The rule's updates of variables called `name` by the gradients, as one node.
  const Node* Update(const Scope& scope, absl::string_view name, const std::vector<Output>& gradients) {
    std::vector<Output> updates;
    const Output rate = ops::Const(scope, 0.25f);
    for (size_t i = 0; i < gradients.size(); ++i) {
      std::vector<Variable> one;
      for (int part = 0; part <= GetParam().slots; ++part) {
        one.push_back(GetVariable(scope, absl::StrCat(name, i, "_", part), gradients[i].shape(),
                                  ConstantInitializer(1 + part), {gradients[i].dtype()}));
      }
      updates.push_back(GetParam().add(scope, one, rate, gradients[i]));
    }
    return ops::Group(scope, updates);
  }
};

TEST_P(GpuUpdateValues, AgreeWithCpus) {
  std::vector<Output> gradients;
  for (const DType dtype : kFloats) {
    for (const int64_t size : {1, 7, 513, 4097, 20000}) gradients.push_back(Feed(dtype, {size}));
  }
  const Node* const on_gpu = Update(scope_, "gpu", gradients);
  const Node* const on_cpu = Update(cpu_, "cpu", gradients);
  EXPECT_GT(Compare({}, {on_gpu}), 0);
  std::vector<std::string> nodes;
  std::vector<Tensor> values = Run({}, {on_gpu}, /*fuse=*/true, &nodes);
  const std::vector<Tensor> cpu = Run({}, {on_cpu}, /*fuse=*/false, &nodes);
  ASSERT_EQ(values.size(), cpu.size());
  const size_t half = values.size() / 2;  // the variables on the GPU come first
  for (size_t i = 0; i < half; ++i) ExpectNear(values[i], cpu[half + i], Tolerance(values[i].dtype()), i);
}

INSTANTIATE_TEST_SUITE_P(Rules, GpuUpdateValues, testing::ValuesIn(kRules),
                         [](const testing::TestParamInfo<Rule>& info) { return info.param.name; });

}  // namespace
}  // namespace belfry
