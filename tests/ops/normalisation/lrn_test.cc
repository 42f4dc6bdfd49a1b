// Local response normalisation of rows longer than a vector register. The windows begin at every channel, and so at any
// address, which a compiler must not take for aligned; the sanitizers run this with clang.
#include <cmath>
#include <random>
#include <vector>

#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

constexpr int64_t kRows = 3, kRadius = 4;
constexpr double kBias = 1, kAlpha = 0.1, kBeta = 0.75;

// bias + alpha * (the sum of the squares of a channel's neighbours), by channel.
std::vector<double> Bases(const std::vector<double>& x) {
  const auto channels = static_cast<int64_t>(x.size());
  std::vector<double> bases(x.size(), kBias);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t d = -kRadius; d <= kRadius; ++d) {
      if (c + d >= 0 && c + d < channels) bases[c] += kAlpha * x[c + d] * x[c + d];
    }
  }
  return bases;
}

class LrnTest : public SessionFixture {
 protected:
  // Compares y and the gradient of sum(y).
  template <class T>
  void Compare(int64_t channels, double tolerance) {
    const Shape shape({kRows, channels});
    Open("cpu:1");
    const Output x = ops::Placeholder(root_, kDTypeOf<T>, shape);
    const Output y = ops::LocalResponseNormalization(
        root_, x, {.depth_radius = kRadius, .bias = kBias, .alpha = kAlpha, .beta = kBeta});
    ASSERT_OK_AND_ASSIGN(const auto gradients, Gradients(root_, {ops::Sum(root_, y)}, {x}));
    Tensor values(kDTypeOf<T>, shape);
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < values.elements(); ++i) values.data<T>()[i] = static_cast<T>(normal(TestRandom()));
    const auto step = Prepare({{x, shape}}, {y, gradients[0]});
    ASSERT_EQ(step->Run({values}), absl::OkStatus());
    for (int64_t row = 0; row < kRows; ++row) {
      const T* const at = values.data<T>() + row * channels;
      const std::vector<double> in(at, at + channels), bases = Bases(in);
      for (int64_t c = 0; c < channels; ++c) {
        double gradient = std::pow(bases[c], -kBeta);
        EXPECT_NEAR(step->fetched(0).data<T>()[row * channels + c], in[c] * gradient, tolerance);
        for (int64_t d = -kRadius; d <= kRadius; ++d) {
          if (c + d < 0 || c + d >= channels) continue;
          gradient -= 2 * kAlpha * kBeta * in[c] * in[c + d] * std::pow(bases[c + d], -kBeta - 1);
        }
        EXPECT_NEAR(step->fetched(1).data<T>()[row * channels + c], gradient, tolerance);
      }
    }
  }
};

TEST_F(LrnTest, RowsOfFloats) {
  for (const int64_t channels : {16, 37, 64, 70}) Compare<float>(channels, 1e-5);
}

TEST_F(LrnTest, RowsOfDoubles) {
  for (const int64_t channels : {8, 19, 35}) Compare<double>(channels, 1e-13);
}

}  // namespace
}  // namespace belfry
