// Runs graphs on a GPU that compiles kernels, fused and unfused.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/half.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/main/testing.h"

namespace belfry {

class GpuFusion : public testing::Test {
 protected:
  void SetUp() override {
    ASSIGN_OR_SKIP(auto devices, OpenTestGpus(1));
    devices_ = std::make_unique<DeviceSet>(std::move(devices));
  }

  // A placeholder that is fed random numbers, of which some, if `special`, are NaN, infinite, zero or subnormal.
  Output Feed(DType dtype, const Shape& shape, bool special = true) {
    feeds_.push_back({ops::Placeholder(scope_, dtype, shape), shape});
    Tensor values(dtype, shape);
    std::normal_distribution<double> normal;
    // Numbers below 1e-4 are subnormal in one of the dtypes.
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kSpecial[] = {0.0,
                                   -0.0,
                                   5e-324,
                                   -1e-310,
                                   1e-41,
                                   -1e-45,
                                   1e-7,
                                   -6e-5,
                                   6e4,
                                   1e38,
                                   kInfinity,
                                   -kInfinity,
                                   std::numeric_limits<double>::quiet_NaN()};
    for (int64_t i = 0; i < values.elements(); ++i) {
      const uint32_t kind = special ? random_() % 64 : 64;
      const double x = kind < std::size(kSpecial) ? kSpecial[kind] : normal(random_);
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
    auto session = ValueOf(Session::Create(graph_, *devices_, {.fuse = fuse}));
    const Node* const initialize = InitializeVariables(scope_);
    EXPECT_TRUE(session->RunTarget(initialize).ok());
    auto step = session->Prepare(feeds_, fetches, targets);
    EXPECT_TRUE(step.ok()) << step.status();
    std::vector<Tensor> results;
    if (!step.ok()) return results;
    for (const ProgramNode& node : (*step)->plan().program.nodes) nodes->push_back(node.op->name);
    EXPECT_EQ((*step)->Run(values_), absl::OkStatus());
    EXPECT_TRUE((*step)->Wait().ok());
    for (size_t i = 0; i < fetches.size(); ++i) results.push_back((*step)->fetched(static_cast<int>(i)));
    for (const Variable& variable : graph_.variables()) results.push_back(session->ReadVariable(variable).value());
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

}  // namespace belfry
