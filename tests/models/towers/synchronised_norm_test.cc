// Statistics of batch norm over all towers, against those of one batch in float64.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/graph/gradients.h"
#include "models/layers/batch_norm.h"
#include "models/towers/replicate_towers.h"
#include "optim/descent.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

constexpr double kEpsilon = 0, kMomentum = 0.75;

struct Batches {
  std::vector<double> x, weight;  // of each example
  std::vector<int64_t> examples;  // of each tower
};

struct Reference {
  long double mean = 0, variance = 0;
  std::vector<double> y, dx;
};

// The layer on the whole batch, and the gradient of mean(weight y).
Reference OneBatch(const Batches& batches) {
  Reference expected;
  const auto n = static_cast<long double>(batches.x.size());
  for (double x : batches.x) expected.mean += x / n;
  for (double x : batches.x) expected.variance += (x - expected.mean) * (x - expected.mean) / n;
  const long double inverse = 1 / std::sqrt(expected.variance + kEpsilon);
  const auto y = [&](size_t i) { return (batches.x[i] - expected.mean) * inverse; };
  long double g_mean = 0, gz_mean = 0;
  for (size_t i = 0; i < batches.x.size(); ++i) {
    g_mean += batches.weight[i] / n / n;
    gz_mean += batches.weight[i] / n * y(i) / n;
  }
  for (size_t i = 0; i < batches.x.size(); ++i) {
    expected.y.push_back(static_cast<double>(y(i)));
    expected.dx.push_back(static_cast<double>((batches.weight[i] / n - g_mean - y(i) * gz_mean) * inverse));
  }
  return expected;
}

template <class T>
class SynchronisedNorm : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SynchronisedNorm, Types);

// Two steps, since the averages differ from their initial values in the second.
template <class T>
void ExpectEqualsOneBatch(const Batches& batches) {
  const auto towers = static_cast<int>(batches.examples.size());
  const DeviceSet devices = DeviceSet::Open(absl::StrCat("cpu:", towers), {.cpu_threads = 1}).value();
  Graph graph(BuiltinOps());
  std::vector<Output> fetches;
  const auto model = [&](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    const Output x = batch["x"];
    const Output y = BatchNorm(tower, "bn", x, {.momentum = kMomentum, .epsilon = kEpsilon});
    const Output loss = ops::Cast(tower, ops::Mean(tower, ops::Mul(tower, y, batch["weight"])), DType::kFloat32);
    absl::StatusOr<std::vector<Output>> gradient = Gradients(tower, {loss}, {x});
    if (!gradient.ok()) return gradient.status();
    fetches.push_back(y);
    fetches.push_back((*gradient)[0]);
    return loss;
  };
  const std::vector<data::Field> fields = {{"x", kDTypeOf<T>, {1}}, {"weight", kDTypeOf<T>, {1}}};
  const TrainStep step =
      ReplicateTowers(Scope(graph), devices, fields, model, optim::GradientDescent({.learning_rate = 0}),
                      {.batch_norm = BatchNormPolicy::kSynchronised});
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const auto session = Session::Create(graph, devices).value();
  ASSERT_TRUE(session->RunTarget(step.initialize).ok());

  std::vector<Feed> feeds;
  size_t first = 0;
  for (int t = 0; t < towers; ++t) {
    const int64_t n = batches.examples[static_cast<size_t>(t)];
    Tensor x(kDTypeOf<T>, {n, 1}), weight(kDTypeOf<T>, {n, 1});
    for (int64_t i = 0; i < n; ++i) {
      x.data<T>()[i] = static_cast<T>(batches.x[first + static_cast<size_t>(i)]);
      weight.data<T>()[i] = static_cast<T>(batches.weight[first + static_cast<size_t>(i)]);
    }
    feeds.push_back({step.towers[t].batch["x"], x});
    feeds.push_back({step.towers[t].batch["weight"], weight});
    first += static_cast<size_t>(n);
  }
  const Reference expected = OneBatch(batches);
  // Means are rounded to T, which shifts what is computed with them.
  const double rounding = std::numeric_limits<T>::epsilon();
  const auto mean = static_cast<double>(expected.mean), variance = static_cast<double>(expected.variance);
  const double near = 8 * rounding + 2 * rounding * std::abs(mean) / std::sqrt(variance);
  double moving_mean = 0, moving_variance = 1;
  for (int s = 0; s < 2; ++s) {
    ASSERT_OK_AND_ASSIGN(const auto fetched, session->Run(feeds, fetches, {step.update}));
    size_t at = 0;
    for (size_t t = 0; t < batches.examples.size(); ++t) {
      const std::vector<double> y = fetched[2 * t].ToDoubles(), dx = fetched[2 * t + 1].ToDoubles();
      const double share = static_cast<double>(batches.examples[t]) / static_cast<double>(batches.x.size());
      for (size_t i = 0; i < y.size(); ++i, ++at) {
        EXPECT_NEAR(y[i], expected.y[at], near) << "tower " << t << ", x = " << batches.x[at];
        EXPECT_NEAR(dx[i] * share, expected.dx[at], near) << "tower " << t << ", x = " << batches.x[at];
      }
    }
    moving_mean = kMomentum * moving_mean + (1 - kMomentum) * mean;
    moving_variance = kMomentum * moving_variance + (1 - kMomentum) * variance;
    for (int t = 0; t < towers; ++t) {
      const auto value = [&](const char* name) {
        return session->ReadVariable(graph.FindVariable(name, t))->ToDoubles()[0];
      };
      EXPECT_NEAR(value("bn/moving_mean"), moving_mean, 4 * rounding * (1 + std::abs(moving_mean)));
      EXPECT_NEAR(value("bn/moving_variance"), moving_variance, (8 * rounding + near) * moving_variance);
    }
  }
}

TYPED_TEST(SynchronisedNorm, EqualsOneBatchFarFromZero) {
  const std::vector<double> form = {-1.5, 0.5, 1, -1, 0, 1.5, -0.5, 0}, weight = {1, -2, 3, 0, 2, 1, -1, 4};
  const std::vector<double> means = std::is_same_v<TypeParam, float> ? std::vector<double>{0, 4096, -65536}
                                                                     : std::vector<double>{0, 65536, -(1LL << 40)};
  for (const double mean : means) {
    for (const std::vector<int64_t>& examples :
         std::vector<std::vector<int64_t>>{{4, 4}, {5, 3}, {8, 0}, {2, 2, 2, 2}, {1, 6, 0, 1}}) {
      Batches batches{form, weight, examples};
      for (double& x : batches.x) x += mean;
      ExpectEqualsOneBatch<TypeParam>(batches);
    }
  }
}

// The means of the towers differ by much more than the deviations within them.
TYPED_TEST(SynchronisedNorm, EqualsOneBatchOfTowersFarApart) {
  ExpectEqualsOneBatch<TypeParam>({{-100, -101, -102, -99, 300, 301, 299, 303}, {1, 2, 3, 4, -1, 0, 2, 1}, {4, 4}});
}

}  // namespace
}  // namespace belfry::models
