// Fused updates on a GPU compared with the same ones run singly: with the kernels of real GPUs, and with the same ones
// compiled for fakes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/state.h"
#include "ops/training.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

struct UpdateKind {
  const char* op;
  int slots;
  // Adds the op for a variable and its slots.
  std::function<Output(const Scope& scope, const std::vector<Variable>& v, Output step, Output rate, Output g)> add;
};

std::vector<UpdateKind> UpdateKinds() {
  using V = std::vector<Variable>;
  return {
      {"ApplyGradientDescent", 0,
       [](const Scope& s, const V& v, Output, Output rate, Output g) {
         return ops::ApplyGradientDescent(s, v[0], rate, g, {.weight_decay = 0.125});
       }},
      {"ApplyMomentum", 1,
       [](const Scope& s, const V& v, Output, Output rate, Output g) {
         return ops::ApplyMomentum(s, v[0], v[1], rate, g, {.use_nesterov = true});
       }},
      {"ApplyRMSProp", 2,
       [](const Scope& s, const V& v, Output, Output rate, Output g) {
         return ops::ApplyRMSProp(s, v[0], v[1], v[2], rate, g);
       }},
      {"ApplyAdagrad", 1,
       [](const Scope& s, const V& v, Output, Output rate, Output g) {
         return ops::ApplyAdagrad(s, v[0], v[1], rate, g);
       }},
      {"ApplyAdam", 2,
       [](const Scope& s, const V& v, Output step, Output rate, Output g) {
         return ops::ApplyAdam(s, v[0], v[1], v[2], step, rate, g);
       }},
      {"ApplyAdamW", 2,
       [](const Scope& s, const V& v, Output step, Output rate, Output g) {
         return ops::ApplyAdamW(s, v[0], v[1], v[2], step, rate, g, {.weight_decay = 0.25});
       }},
      {"ApplyLars", 1,
       [](const Scope& s, const V& v, Output, Output rate, Output g) {
         return ops::ApplyLars(s, v[0], v[1], rate, g);
       }},
      {"ApplyMovingAverage", 0,
       [](const Scope& s, const V& v, Output step, Output, Output g) {
         return ops::ApplyMovingAverage(s, v[0], step, g);
       }},
  };
}

// Updates of one kind, for variables of several sizes, by gradients that are fed.
struct ManyUpdates {
  ManyUpdates(const Scope& scope, const UpdateKind& kind, DType dtype, const std::vector<int64_t>& sizes) {
    std::vector<Output> updates;
    for (size_t i = 0; i < sizes.size(); ++i) {
      std::vector<Variable> one;
      for (int part = 0; part <= kind.slots; ++part) {
        one.push_back(
            GetVariable(scope, absl::StrCat("v", i, "_", part), {sizes[i]}, ConstantInitializer(1 + part), {dtype}));
      }
      gradients.push_back(ops::Placeholder(scope, dtype, {sizes[i]}));
      // Each variable has a step and a rate of its own.
      const Output step = ops::Const<int64_t>(scope, static_cast<int64_t>(i % 5));
      const Output rate = ops::Const(scope, 0.25f + 0.125f * static_cast<float>(i % 2));
      updates.push_back(kind.add(scope, one, step, rate, gradients.back()));
      variables.insert(variables.end(), one.begin(), one.end());
    }
    update = ops::Group(scope, updates);
  }

  // All variables after several steps on random gradients, which include NaN and infinity.
  std::vector<Tensor> Train(const Graph& graph, const DeviceSet& devices, const Node* initialize, bool fuse,
                            unsigned seed, std::vector<std::string>* ops) const {
    std::vector<Tensor> values;
    auto session = ValueOf(Session::Create(graph, devices, {.fuse = fuse}));
    EXPECT_TRUE(session->RunTarget(initialize).ok());
    std::vector<FeedSpec> specs;
    for (const Output& gradient : gradients) specs.push_back({gradient, gradient.shape()});
    auto prepared = session->Prepare(specs, {}, {update});
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    if (!prepared.ok()) return values;
    for (const ProgramNode& node : (*prepared)->plan().program.nodes) ops->push_back(node.op->name);
    std::mt19937 random(seed);
    for (int i = 0; i < 3; ++i) {
      std::vector<Tensor> feeds;
      for (const Output& gradient : gradients) feeds.push_back(RandomLike(gradient, random));
      EXPECT_EQ((*prepared)->Run(feeds), absl::OkStatus());
    }
    for (const Variable& variable : variables) values.push_back(session->ReadVariable(variable).value());
    return values;
  }

  static Tensor RandomLike(const Output& gradient, std::mt19937& random) {
    std::normal_distribution<float> normal;
    Tensor tensor(gradient.dtype(), gradient.shape());
    const auto fill = [&](auto* data) {
      using T = std::remove_pointer_t<decltype(data)>;
      for (int64_t k = 0; k < tensor.elements(); ++k) {
        const auto odd = random() % 997;
        data[k] = static_cast<T>(odd == 0   ? std::numeric_limits<float>::quiet_NaN()
                                 : odd == 1 ? std::numeric_limits<float>::infinity()
                                            : normal(random));
      }
    };
    switch (gradient.dtype()) {
      case DType::kFloat32: fill(tensor.data<float>()); break;
      case DType::kFloat64: fill(tensor.data<double>()); break;
      case DType::kFloat16: fill(tensor.data<Half>()); break;
      default: fill(tensor.data<BFloat16>()); break;
    }
    return tensor;
  }

  std::vector<Output> gradients;
  std::vector<Variable> variables;  // each followed by its slots
  const Node* update;
};

void ExpectSameBits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].bytes(), b[i].bytes());
    const std::vector<double> x = a[i].ToDoubles(), y = b[i].ToDoubles();
    const size_t size = x.empty() ? 0 : a[i].bytes() / x.size();
    for (size_t k = 0; k < x.size(); ++k) {
      if (std::isnan(x[k]) && std::isnan(y[k])) continue;  // NaNs of either sign are equal
      const auto bits = [&](const Tensor& tensor) { return static_cast<const char*>(tensor.raw()) + k * size; };
      ASSERT_EQ(std::memcmp(bits(a[i]), bits(b[i]), size), 0) << i << "[" << k << "]: " << x[k] << " and " << y[k];
    }
  }
}

TEST(GpuUpdates, JoinedGiveTheSameBits) {
  ASSIGN_OR_SKIP(const auto devices, OpenTestGpus(1));
  const uint32_t seed = TestSeed();
  // More than fit into one launch, one of which takes several chunks.
  std::vector<int64_t> sizes(50, 7);
  sizes[3] = 0;
  sizes[11] = 4096;
  sizes[12] = 9001;
  sizes[48] = 1;
  for (const UpdateKind& kind : UpdateKinds()) {
    for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
      for (int condition = -1; condition < 2; ++condition) {
        SCOPED_TRACE(absl::StrCat(kind.op, " ", DTypeName(dtype), " condition ", condition));
        Graph graph(BuiltinOps());
        Scope scope = Scope(graph).Device("/gpu:0");
        const Scope when = condition < 0 ? scope : scope.OnlyIf(ops::Const<bool>(scope, condition == 1));
        const ManyUpdates many(when, kind, dtype, sizes);
        const Node* initialize = InitializeVariables(scope);
        std::vector<std::string> joined, apart;
        const std::vector<Tensor> actual = many.Train(graph, devices, initialize, true, seed, &joined);
        const std::vector<Tensor> expected = many.Train(graph, devices, initialize, false, seed, &apart);
        ExpectSameBits(actual, expected);
        const bool joins = absl::string_view(kind.op) != "ApplyLars";  // ApplyLars needs the norms of each variable
        EXPECT_EQ(std::count(joined.begin(), joined.end(), "_Joined"), joins ? 1 : 0);
        EXPECT_EQ(std::count(apart.begin(), apart.end(), kind.op), 50);
      }
    }
  }
}

TEST(GpuUpdates, CountersAreIncrementedTogether) {
  ASSIGN_OR_SKIP(const auto devices, OpenTestGpus(1));
  constexpr int kCounters = 300;  // more than fit into one launch
  for (int condition = -1; condition < 2; ++condition) {
    SCOPED_TRACE(condition);
    Graph graph(BuiltinOps());
    Scope scope = Scope(graph).Device("/gpu:0");
    const Scope when = condition < 0 ? scope : scope.OnlyIf(ops::Const<bool>(scope, condition == 1));
    std::vector<Variable> counters;
    std::vector<Output> updates;
    for (int i = 0; i < kCounters; ++i) {
      counters.push_back(GetVariable(scope, absl::StrCat("counter_", i), {}, ConstantInitializer(i),
                                     {.dtype = DType::kInt64, .trainable = false}));
      updates.push_back(ops::Increment(when, counters.back()));
    }
    const Node* const update = ops::Group(scope, updates);
    const Node* const initialize = InitializeVariables(scope);
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, devices));
    ASSERT_TRUE(session->RunTarget(initialize).ok());
    ASSERT_OK_AND_ASSIGN(auto prepared, session->Prepare({}, {}, {update}));
    int joined = 0;
    for (const ProgramNode& node : prepared->plan().program.nodes) joined += node.op->name == "_Updates";
    EXPECT_EQ(joined, 1);
    for (int run = 0; run < 2; ++run) ASSERT_TRUE(prepared->Run({}).ok());
    for (int i = 0; i < kCounters; ++i) {
      EXPECT_EQ(session->ReadVariable(counters[i]).value().scalar<int64_t>(), condition == 0 ? i : i + 2);
    }
  }
}

}  // namespace
}  // namespace belfry
