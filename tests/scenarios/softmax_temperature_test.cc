// S9: softmax with temperature.
#include <algorithm>
#include <cmath>
#include <random>

#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/nn.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

Tensor Softmax(const Tensor& logits, int64_t axis, double temperature) {
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output x = ops::Placeholder(scope, DType::kFloat32, logits.shape());
  const Output y = ops::Softmax(scope, x, {.axis = axis, .temperature = temperature});
  const auto session = ValueOf(Session::Create(graph, devices));
  auto result = ValueOf(session->Run({{x, logits}}, {y}));
  return result[0];
}

Tensor RandomLogits(const Shape& shape) {
  std::mt19937 random{TestSeed()};
  std::normal_distribution<float> normal(0, 2);
  Tensor logits(DType::kFloat32, shape);
  for (int64_t i = 0; i < logits.elements(); ++i) logits.data<float>()[i] = normal(random);
  return logits;
}

// The entropy of a vector of probabilities; the flatter, the larger.
double Entropy(const Tensor& p) {
  double entropy = 0;
  for (double value : p.ToDoubles()) entropy -= value > 0 ? value * std::log(value) : 0;
  return entropy;
}

TEST(ScenarioSoftmax, TemperatureOnAnyAxis) {
  const Shape shape = {3, 7, 5};
  const Tensor logits = RandomLogits(shape);
  for (double temperature : {0.6, 1.0, 2.5}) {
    for (int axis : {0, 1, 2, -1, -3}) {
      const Tensor y = Softmax(logits, axis, temperature);
      ASSERT_EQ(y.shape(), shape);
      const int front = axis < 0 ? axis + 3 : axis;
      const int64_t inner = shape.elements(front + 1, 3), extent = shape[front];
      for (int64_t i = 0; i < logits.elements(); ++i) {
        const int64_t first = i - i / inner % extent * inner;
        double sum = 0;
        for (int64_t k = 0; k < extent; ++k) sum += std::exp(logits.data<float>()[first + k * inner] / temperature);
        const double expected = std::exp(logits.data<float>()[i] / temperature) / sum;
        ASSERT_NEAR(y.data<float>()[i], expected, 1e-5) << "T = " << temperature << ", axis " << axis;
      }
    }
  }
}

TEST(ScenarioSoftmax, SharperBelowOneAndFlatterAbove) {
  const Tensor logits = RandomLogits({9});
  const Tensor sharp = Softmax(logits, -1, 0.6), plain = Softmax(logits, -1, 1), flat = Softmax(logits, -1, 3);
  EXPECT_LT(Entropy(sharp), Entropy(plain));
  EXPECT_LT(Entropy(plain), Entropy(flat));
  const auto largest = [](const Tensor& p) { return *std::max_element(p.data<float>(), p.data<float>() + 9); };
  EXPECT_GT(largest(sharp), largest(plain));
  EXPECT_GT(largest(plain), largest(flat));
}

TEST(ScenarioSoftmax, KnownValues) {
  const Tensor y = Softmax(Tensor::Of<float>({1, 2, 3}), -1, 0.6);
  const double known[] = {0.0291323, 0.1542409, 0.8166268};
  const double e1 = std::exp(1 / 0.6), e2 = std::exp(2 / 0.6), e3 = std::exp(3 / 0.6), sum = e1 + e2 + e3;
  const double naive[] = {e1 / sum, e2 / sum, e3 / sum};
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(y.data<float>()[i], naive[i], 1e-6);
    EXPECT_NEAR(naive[i], known[i], 1e-7);
  }
}

}  // namespace
}  // namespace belfry
