// Convolutions and reductions of random shapes, against plain loops in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/value.h"

namespace belfry::ops {
namespace {

class RandomShapes : public ::testing::Test {
 protected:
  int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(TestRandom()); }
  Tensor Normal(const Shape& shape) {
    Tensor tensor(DType::kFloat32, shape);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = normal(TestRandom());
    return tensor;
  }

  Graph graph_{BuiltinOps()};
  const Scope root_{graph_};
};

// y[n, i, j, k] by its definition, with `top` and `left` rows and columns of zeros before the image.
double Convolved(const Tensor& x, const Tensor& filter, const Conv2DOptions& o, int64_t top, int64_t left, int64_t n,
                 int64_t i, int64_t j, int64_t k) {
  const Shape &image = x.shape(), &taps = filter.shape();
  const int64_t c = taps[2], group = k / (taps[3] / o.groups);
  double sum = 0;
  for (int64_t r = 0; r < taps[0]; ++r) {
    for (int64_t s = 0; s < taps[1]; ++s) {
      const int64_t row = i * o.stride_h + r * o.dilation_h - top, column = j * o.stride_w + s * o.dilation_w - left;
      if (row < 0 || row >= image[1] || column < 0 || column >= image[2]) continue;
      for (int64_t q = 0; q < c; ++q) {
        sum += static_cast<double>(
                   x.data<float>()[((n * image[1] + row) * image[2] + column) * image[3] + group * c + q]) *
               filter.data<float>()[((r * taps[1] + s) * c + q) * taps[3] + k];
      }
    }
  }
  return sum;
}

TEST_F(RandomShapes, Convolutions) {
  for (int trial = 0; trial < 150; ++trial) {
    Conv2DOptions o{.stride_h = Draw(1, 3), .stride_w = Draw(1, 3), .dilation_h = Draw(1, 2), .dilation_w = Draw(1, 2)};
    o.groups = Draw(0, 3) == 0 ? Draw(2, 4) : 1;
    const int64_t r = Draw(1, 5), s = Draw(1, 5), c = Draw(1, 20), k = Draw(1, 20);
    const int64_t high = (r - 1) * o.dilation_h, wide = (s - 1) * o.dilation_w;
    const Tensor x = Normal({Draw(1, 3), high + Draw(1, 12), wide + Draw(1, 12), c * o.groups});
    const Tensor filter = Normal({r, s, c, k * o.groups});
    const bool same = Draw(0, 1) == 0;
    if (!same) o.padding = Padding::Valid();
    const Tensor y = ValueOf(Value(Conv2D(root_, Const(root_, x), Const(root_, filter), o)));
    const auto extent = [&](int64_t in, int64_t reach, int64_t stride) {
      return same ? (in + stride - 1) / stride : (in - reach + stride - 1) / stride;
    };
    const Shape expected{x.shape()[0], extent(x.shape()[1], high, o.stride_h), extent(x.shape()[2], wide, o.stride_w),
                         k * o.groups};
    ASSERT_EQ(y.shape(), expected);
    // SAME pads by what is needed, the odd row behind (TensorFlow).
    const auto before = [&](int64_t in, int64_t out, int64_t reach, int64_t stride) {
      return same ? std::max<int64_t>(0, (out - 1) * stride + reach + 1 - in) / 2 : 0;
    };
    const int64_t top = before(x.shape()[1], expected[1], high, o.stride_h);
    const int64_t left = before(x.shape()[2], expected[2], wide, o.stride_w);
    const double bound = 1e-5 * std::sqrt(static_cast<double>(r * s * c)) + 1e-6;
    int64_t at = 0;
    for (int64_t n = 0; n < expected[0]; ++n) {
      for (int64_t i = 0; i < expected[1]; ++i) {
        for (int64_t j = 0; j < expected[2]; ++j) {
          for (int64_t q = 0; q < expected[3]; ++q, ++at) {
            ASSERT_NEAR(y.data<float>()[at], Convolved(x, filter, o, top, left, n, i, j, q), bound)
                << "trial " << trial << ", " << x.shape().ToString() << " by " << filter.shape().ToString();
          }
        }
      }
    }
  }
}

TEST_F(RandomShapes, Reductions) {
  for (int trial = 0; trial < 300; ++trial) {
    const int rank = static_cast<int>(Draw(1, 5));
    std::vector<int64_t> dims, kept;
    std::vector<int64_t> axes;
    for (int axis = 0; axis < rank; ++axis) {
      dims.push_back(Draw(0, 30) == 0 ? 0 : Draw(1, 9));
      const bool reduced = Draw(0, 1) == 0;
      if (reduced) axes.push_back(axis);
      kept.push_back(reduced ? 1 : dims.back());
    }
    if (axes.empty()) continue;  // of all
    const Tensor x = Normal(Shape(dims));
    const Shape shape(kept);
    std::vector<double> sum(shape.elements(), 0), square(sum), product(sum.size(), 1);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    std::vector<double> least(sum.size(), kInfinity), most(sum.size(), -kInfinity);
    for (int64_t i = 0; i < x.elements(); ++i) {
      int64_t at = 0, rest = i, stride = 1;
      for (int axis = rank - 1; axis >= 0; rest /= dims[axis], stride *= kept[axis], --axis) {
        at += rest % dims[axis] % kept[axis] * stride;
      }
      const double value = x.data<float>()[i];
      sum[at] += value;
      square[at] += value * value;
      product[at] *= value;
      least[at] = std::min(least[at], value);
      most[at] = std::max(most[at], value);
    }
    const Output in = Const(root_, x);
    SCOPED_TRACE(absl::StrCat("trial ", trial, ", ", x.shape().ToString(), " to ", shape.ToString()));
    const Axes of(axes);
    const std::vector<Tensor> got = ValueOf(harness::Evaluate(
        {Sum(root_, in, of, true), Prod(root_, in, of, true), Min(root_, in, of, true), Max(root_, in, of, true)}, {}));
    for (const Tensor& tensor : got) ASSERT_EQ(tensor.shape(), shape);
    for (int64_t i = 0; i < shape.elements(); ++i) {
      ASSERT_NEAR(got[0].data<float>()[i], sum[i], 1e-5 * std::sqrt(square[i]) + 1e-6);
      ASSERT_NEAR(got[1].data<float>()[i], product[i], 1e-3 * std::abs(product[i]) + 1e-30);
      ASSERT_EQ(got[2].data<float>()[i], least[i]);
      ASSERT_EQ(got[3].data<float>()[i], most[i]);
    }
  }
}

}  // namespace
}  // namespace belfry::ops
