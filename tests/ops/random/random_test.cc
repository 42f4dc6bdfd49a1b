#include "ops/random.h"
#include "ops/builtin_ops.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/parallel.h"
#include "framework/base/philox.h"
#include "framework/compiler/eager.h"
#include "framework/graph/graph.h"
#include "framework/graph/infer.h"
#include "tests/main/testing.h"

namespace belfry::ops {
namespace {

// The tensor that the node of `output` draws, with these counters, in this run of the session.
Tensor Draw(Output output, const std::vector<int64_t>& counters = {}, uint64_t run = 0) {
  std::vector<Tensor> inputs;
  for (int64_t counter : counters) inputs.push_back(Tensor::Scalar<int64_t>(counter));
  absl::StatusOr<std::vector<Tensor>> outputs = RunOp(output.node->op(), output.node->attrs(), inputs, run);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? outputs->front() : Tensor();
}

std::vector<double> Values(const Tensor& tensor) { return tensor.ToDoubles(); }

double Phi(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// The Kolmogorov-Smirnov statistic times sqrt(n): the largest distance between the sample's distribution function and
// the given one. Exceeds 1.95 for one sample in a thousand.
double Distance(std::vector<double> sample, const std::function<double(double)>& distribution) {
  std::sort(sample.begin(), sample.end());
  const auto n = static_cast<double>(sample.size());
  double distance = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const double p = distribution(sample[i]);
    distance = std::max({distance, p - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - p});
  }
  return distance * std::sqrt(n);
}

class RandomTest : public ::testing::Test {
 protected:
  Graph graph_{BuiltinOps()};
  Scope root_{graph_};
  const Shape large_{199, 501};
};

TEST_F(RandomTest, BlocksAreThoseOfTheScalarGenerator) {
  for (uint64_t low : {uint64_t{0}, uint64_t{0xfffffff7}, ~uint64_t{0} - 3}) {
    std::vector<uint32_t> words(4 * 37);
    PhiloxBlocks(0x123456789abcdef0, 77, low, 37, words.data());
    for (uint64_t i = 0; i < 37; ++i) {
      const std::array<uint32_t, 4> block = Philox4x32(0x123456789abcdef0, 77, low + i);
      for (size_t w = 0; w < 4; ++w) ASSERT_EQ(words[4 * i + w], block[w]) << "block " << i << " word " << w;
    }
  }
}

TEST_F(RandomTest, UniformFollowsItsDistribution) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const std::vector<double> x = Values(Draw(RandomUniform(root_, large_, -2, 3, {.dtype = dtype})));
    EXPECT_LT(Distance(x, [](double v) { return (v + 2) / 5; }), 1.95);
    EXPECT_GE(*std::min_element(x.begin(), x.end()), -2);
    EXPECT_LT(*std::max_element(x.begin(), x.end()), 3);
  }
}

TEST_F(RandomTest, UniformNeverReachesHigh) {
  // All float32 numbers in [1, 1 + 2^-23) other than 1 are out of range.
  for (double v : Values(Draw(RandomUniform(root_, {1000}, 1, 1 + 0x1p-23)))) ASSERT_EQ(v, 1);
}

TEST_F(RandomTest, UniformStaysInItsRangeInEveryDType) {
  struct Range {
    DType dtype;
    double low, high;
  };
  const double largest = std::numeric_limits<float>::max(), largest64 = std::numeric_limits<double>::max();
  for (const auto& [dtype, low, high] : std::vector<Range>{{DType::kFloat32, -2e38, 2e38},
                                                           {DType::kFloat32, -largest, largest},
                                                           {DType::kFloat64, -largest64, largest64},
                                                           {DType::kFloat64, -1e308, 1.5e308},
                                                           {DType::kFloat16, 0, 1},
                                                           {DType::kFloat16, -65504, 65504},
                                                           {DType::kFloat16, 1024, 1024.5},
                                                           {DType::kFloat16, -1, 0},
                                                           {DType::kFloat16, 0, 1e-7},
                                                           {DType::kBFloat16, 0, 1},
                                                           {DType::kBFloat16, -3, -2},
                                                           {DType::kBFloat16, -0x1.8p127, 0x1.8p127},
                                                           {DType::kBFloat16, 1, 1.001}}) {
    const std::vector<double> x = Values(Draw(RandomUniform(root_, large_, low, high, {.dtype = dtype})));
    double mean = 0;
    for (const double v : x) {
      ASSERT_GE(v, low) << DTypeName(dtype) << " of " << low << ", " << high;
      ASSERT_LT(v, high) << DTypeName(dtype) << " of " << low << ", " << high;
      mean += v / static_cast<double>(x.size());
    }
    if (high - low < 1e-3 || (low >= 1 && high < 1025)) continue;  // few numbers of the dtype lie there
    const double width = high / 2 - low / 2, middle = high / 2 + low / 2;
    EXPECT_NEAR(mean / width, middle / width, 0.02) << DTypeName(dtype) << " of " << low << ", " << high;
  }
}

TEST_F(RandomTest, RefusesWhatTheDTypeCannotHold) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto error = [](Output x) { return std::string(RunOp(x.node->op(), x.node->attrs(), {}).status().message()); };
  const RandomOptions half{.dtype = DType::kFloat16};
  const std::vector<Output> results = {
      RandomUniform(root_, {2}, 0, 1e300),        RandomUniform(root_, {2}, -infinity, 0),
      RandomUniform(root_, {2}, 0, 7e4, half),    RandomNormal(root_, {2}, 1e39),
      RandomNormal(root_, {2}, 0, infinity),      RandomNormal(root_, {2}, 7e4, 1, half),
      TruncatedNormal(root_, {2}, 6e4, 4e3, half)};
  for (const Output& x : results) {
    EXPECT_THAT(error(x), ::testing::HasSubstr("has numbers up to")) << x.name();
  }
  EXPECT_EQ(error(TruncatedNormal(root_, {2}, 6e4, 2e3, half)), "");
}

TEST_F(RandomTest, NormalFollowsItsDistribution) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const std::vector<double> x = Values(Draw(RandomNormal(root_, large_, 1.5, 0.25, {.dtype = dtype})));
    EXPECT_LT(Distance(x, [](double v) { return Phi((v - 1.5) / 0.25); }), 1.95);
  }
}

TEST_F(RandomTest, TruncatedNormalFollowsItsDistribution) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const std::vector<double> x = Values(Draw(TruncatedNormal(root_, large_, -1, 3, {.dtype = dtype})));
    EXPECT_LT(Distance(x, [](double v) { return (Phi((v + 1) / 3) - Phi(-2)) / (Phi(2) - Phi(-2)); }), 1.95);
    EXPECT_GE(*std::min_element(x.begin(), x.end()), -7);
    EXPECT_LE(*std::max_element(x.begin(), x.end()), 5);
  }
}

TEST_F(RandomTest, Float64IsTheQuantileOfItsWords) {
  for (bool truncated : {false, true}) {
    const RandomOptions options{.dtype = DType::kFloat64, .per_step = false, .key = "k"};
    const Output output =
        truncated ? TruncatedNormal(root_, {4099}, 0, 1, options) : RandomNormal(root_, {4099}, 0, 1, options);
    const std::vector<double> x = Values(Draw(output));
    const uint64_t key = RandomKey(graph_.seed(), "k");
    for (size_t i = 0; i < x.size(); ++i) {
      const double u =
          (Philox4x32(key, 0, i / 4)[i % 4] + 0x1p-32 * Philox4x32(key, uint64_t{1} << 63, i / 4)[i % 4]) * 0x1p-32;
      const double p = truncated ? Phi(-2) + (Phi(2) - Phi(-2)) * u : u;
      ASSERT_NEAR(Phi(x[i]), p, 1e-14) << i;
    }
  }
}

TEST_F(RandomTest, NarrowDtypesRoundTheSameNumbers) {
  const auto draw = [&](const char* op, DType dtype) {
    const RandomOptions options{.dtype = dtype, .per_step = false, .key = "same"};
    if (op[0] == 'U') return Values(Draw(RandomUniform(root_, {5003}, -1, 1, options)));
    if (op[0] == 'N') return Values(Draw(RandomNormal(root_, {5003}, 0, 1, options)));
    return Values(Draw(TruncatedNormal(root_, {5003}, 0, 1, options)));
  };
  for (const char* op : {"Uniform", "Normal", "Truncated"}) {
    const std::vector<double> exact = draw(op, DType::kFloat64);
    for (const auto& [dtype, tolerance] : std::vector<std::pair<DType, double>>{
             {DType::kFloat32, 3e-6}, {DType::kFloat16, 2e-3}, {DType::kBFloat16, 1.6e-2}}) {
      const std::vector<double> x = draw(op, dtype);
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(x[i], exact[i], tolerance * std::max(1.0, std::abs(exact[i]))) << op << " " << DTypeName(dtype);
      }
    }
  }
}

TEST_F(RandomTest, IntegersAreUniform) {
  std::vector<int> counts(7);
  for (double v : Values(Draw(RandomUniformInt(root_, {70000}, -3, 4)))) ++counts.at(static_cast<size_t>(v + 3));
  for (int count : counts) EXPECT_NEAR(count, 10000, 5 * std::sqrt(10000 * 6 / 7.0));
}

TEST_F(RandomTest, IntegersOfTheWholeRange) {
  const Tensor wide =
      Draw(RandomUniformInt(root_, {20000}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
  EXPECT_LT(Distance(Values(wide), [](double v) { return v * 0x1p-64 + 0.5; }), 1.95);
  const Tensor narrow = Draw(RandomUniformInt(root_, {50}, 5, 6, {.dtype = DType::kInt32}));
  EXPECT_THAT(Values(narrow), ::testing::Each(5));
}

TEST_F(RandomTest, BernoulliHasItsProbability) {
  const std::vector<double> x = Values(Draw(Bernoulli(root_, {100000}, 0.3)));
  EXPECT_NEAR(std::count(x.begin(), x.end(), 1.0), 30000, 5 * std::sqrt(100000 * 0.21));
  EXPECT_EQ(std::count(x.begin(), x.end(), 1.0) + std::count(x.begin(), x.end(), 0.0), 100000);
  EXPECT_THAT(Values(Draw(Bernoulli(root_, {1000}, 1))), ::testing::Each(1));
  EXPECT_THAT(Values(Draw(Bernoulli(root_, {1000}, 0))), ::testing::Each(0));
}

TEST_F(RandomTest, StepsSeedsAndKeysGiveOtherNumbers) {
  const Output a = RandomNormal(root_, {101}), b = RandomNormal(root_, {101});
  EXPECT_EQ(Values(Draw(a, {}, 4)), Values(Draw(a, {}, 4)));
  EXPECT_NE(Values(Draw(a, {}, 4)), Values(Draw(a, {}, 5)));
  EXPECT_NE(Values(Draw(a, {}, 4)), Values(Draw(b, {}, 4)));
  const Output constant = RandomNormal(root_, {101}, 0, 1, {.per_step = false, .key = "w"});
  EXPECT_EQ(Values(Draw(constant, {}, 4)), Values(Draw(constant, {}, 5)));
  graph_.set_seed(7);
  const Output reseeded = RandomNormal(root_, {101}, 0, 1, {.per_step = false, .key = "w"});
  EXPECT_NE(Values(Draw(constant)), Values(Draw(reseeded)));
}

TEST_F(RandomTest, NeighbouringStepsAreUncorrelated) {
  const Output output = RandomNormal(root_, {40000});
  const std::vector<double> a = Values(Draw(output, {}, 1)), b = Values(Draw(output, {}, 2));
  double product = 0;
  for (size_t i = 0; i < a.size(); ++i) product += a[i] * b[i];
  EXPECT_LT(std::abs(product) / std::sqrt(40000.0), 4);
}

TEST_F(RandomTest, TowersDrawTheirRowsOfTheBatch) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const auto part = [&](int tower, int64_t rows, int64_t first) {
      const Scope scope = root_.NameScope(tower < 0 ? "tower_0" : absl::StrCat("tower_", tower));
      Output step = RandomUniformInt(root_, {}, 0, 2);
      const Output drawn =
          TruncatedNormal(scope.RandomCounters(step, step), {rows, 3, 7}, 0, 1, {.dtype = dtype, .key = "drop"});
      return Values(Draw(drawn, {9, first}));
    };
    const std::vector<double> whole = part(-1, 60, 0);
    std::vector<double> joined;
    int tower = 0;
    for (int64_t first = 0; first < 60; first += 20) {
      const std::vector<double> rows = part(tower++, 20, first);
      joined.insert(joined.end(), rows.begin(), rows.end());
    }
    EXPECT_EQ(joined, whole);
  }
}

TEST_F(RandomTest, KeysDropTheTowerOnlyWhenTowersShareATensor) {
  Output counter = RandomUniformInt(root_, {}, 0, 2);
  const auto key = [&](const Scope& scope) { return RandomKeyName(scope.NameScope("drop"), "RandomNormal"); };
  const Scope tower = root_.NameScope("tower_1"), other = root_.NameScope("tower_2");
  EXPECT_EQ(key(tower), "tower_1/drop/RandomNormal/key");
  const Scope shared = tower.RandomCounters(counter, counter);
  EXPECT_EQ(key(shared.NameScope("a")), "a/drop/RandomNormal/key");
  EXPECT_EQ(key(other.RandomCounters(counter, counter).NameScope("a")), "a/drop/RandomNormal/key");
  EXPECT_NE(RandomKeyName(shared, "RandomNormal"), RandomKeyName(shared, "RandomNormal"));
}

TEST_F(RandomTest, ThreadsDoNotMatter) {
  const Output output = RandomNormal(root_, large_);
  Tensor one, two;
  {
    ScopedParallelThreads threads(1);
    one = Draw(output);
  }
  ScopedParallelThreads threads(2);
  EXPECT_EQ(Values(Draw(output)), Values(one));
}

TEST_F(RandomTest, EmptyAndScalar) {
  EXPECT_EQ(Draw(RandomNormal(root_, {0, 3})).elements(), 0);
  EXPECT_EQ(Draw(RandomNormal(root_, {})).elements(), 1);
}

TEST_F(RandomTest, VariablesStartAlikeInAllReplicas) {
  const auto initial = [&](int replica, const char* name) {
    const Variable v = GetVariable(root_.Replica(replica), name, {33, 5}, TruncatedNormalInitializer(0.1));
    return Values(Draw(v.def().initial_value));
  };
  const std::vector<double> first = initial(0, "weights");
  EXPECT_EQ(initial(1, "weights"), first);
  EXPECT_NE(initial(0, "other"), first);
}

TEST_F(RandomTest, Errors) {
  EXPECT_FALSE(RandomNormal(root_, {Shape::kUnknown, 2}).valid());
  EXPECT_THAT(graph_.status().message(), ::testing::HasSubstr("fully known"));
  Graph graph(BuiltinOps());
  const Output empty_range = RandomUniformInt(Scope(graph), {2}, 3, 3);
  EXPECT_FALSE(RunOp(empty_range.node->op(), empty_range.node->attrs(), {}).ok());
  const Output negative = RandomNormal(Scope(graph), {2}, 0, -1);
  EXPECT_FALSE(RunOp(negative.node->op(), negative.node->attrs(), {}).ok());
}

}  // namespace
}  // namespace belfry::ops
