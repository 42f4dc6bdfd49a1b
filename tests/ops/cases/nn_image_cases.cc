#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_replace.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

using ops::Padding;

// One axis: the number of windows, and the padding before the image.
struct Axis {
  int64_t out, before;
};
Axis Slide(const Padding& padding, int64_t before, int64_t after, int64_t in, int64_t window, int64_t stride,
           int64_t dilation) {
  const int64_t reach = (window - 1) * dilation + 1;
  if (padding.kind == Padding::kSame) {
    const int64_t out = (in + stride - 1) / stride;
    return {out, in == 0 ? 0 : std::max<int64_t>((out - 1) * stride + reach - in, 0) / 2};
  }
  if (padding.kind == Padding::kValid) before = after = 0;
  return {(in + before + after - reach) / stride + 1, before};
}

double At(const Array& x, int64_t n, int64_t h, int64_t w, int64_t c) {
  return x[((n * x.shape[1] + h) * x.shape[2] + w) * x.shape[3] + c];
}

Array Convolve(const Array& x, const Array& filter, const ops::Conv2DOptions& o) {
  const int64_t r = filter.shape[0], s = filter.shape[1], cg = filter.shape[2], k = filter.shape[3];
  const Axis h = Slide(o.padding, o.padding.top, o.padding.bottom, x.shape[1], r, o.stride_h, o.dilation_h);
  const Axis w = Slide(o.padding, o.padding.left, o.padding.right, x.shape[2], s, o.stride_w, o.dilation_w);
  Array y({x.shape[0], h.out, w.out, k});
  for (int64_t i = 0; i < y.size(); ++i) {
    const int64_t to = i % k, ow = i / k % w.out, oh = i / k / w.out % h.out, n = i / k / w.out / h.out;
    for (int64_t tap = 0; tap < r * s * cg; ++tap) {
      const int64_t c = tap % cg, ih = oh * o.stride_h - h.before + tap / cg / s * o.dilation_h;
      const int64_t iw = ow * o.stride_w - w.before + tap / cg % s * o.dilation_w;
      if (ih < 0 || ih >= x.shape[1] || iw < 0 || iw >= x.shape[2]) continue;
      y[i] += At(x, n, ih, iw, to / (k / o.groups) * cg + c) * filter[tap * k + to];
    }
  }
  return y;
}

// Winograd's products may be wrong by 1e-4 of the root mean square of the result (tests/ops/winograd), which is about a
// third of its largest value.
constexpr double kWinogradError = 3e-5;

OpCase ConvCase(const std::string& name, const Shape& x, const Shape& filter, const ops::Conv2DOptions& options,
                std::vector<std::vector<Shape>> more_shapes = {}) {
  return {.name = name,
          .inputs = {{x}, {filter}},
          .build = [=](const Scope& scope, const Ins& in) { return Outs{ops::Conv2D(scope, in[0], in[1], options)}; },
          .reference = [=](const Arrays& in) { return Arrays{Convolve(in[0], in[1], options)}; },
          .more_shapes = std::move(more_shapes),
          .tolerance = 8,
          .float32_error = kWinogradError,
          .gradient_tolerance = 8,
          .unknown_axes = {0, 1, 2, 3},
          .thread_dependent = true};
}

OpCase PoolCase(const std::string& name, bool max, const Shape& x, const ops::PoolOptions& o,
                std::vector<std::vector<Shape>> more_shapes = {}) {
  const auto reference = [=](const Arrays& in) {
    const Shape& shape = in[0].shape;
    const Axis h = Slide(o.padding, o.padding.top, o.padding.bottom, shape[1], o.height, o.stride_h, 1);
    const Axis w = Slide(o.padding, o.padding.left, o.padding.right, shape[2], o.width, o.stride_w, 1);
    Array y({shape[0], h.out, w.out, shape[3]});
    for (int64_t i = 0; i < y.size(); ++i) {
      const int64_t c = i % shape[3], ow = i / shape[3] % w.out, oh = i / shape[3] / w.out % h.out;
      double best = -std::numeric_limits<double>::infinity(), sum = 0, count = 0;
      for (int64_t ih = oh * o.stride_h - h.before; ih < oh * o.stride_h - h.before + o.height; ++ih) {
        for (int64_t iw = ow * o.stride_w - w.before; iw < ow * o.stride_w - w.before + o.width; ++iw) {
          if (ih < 0 || ih >= shape[1] || iw < 0 || iw >= shape[2]) continue;
          const double value = At(in[0], i / shape[3] / w.out / h.out, ih, iw, c);
          best = std::max(best, value);
          sum += value;
          count += 1;
        }
      }
      y[i] = max ? best : sum / count;
    }
    return Arrays{y};
  };
  return {
      .name = name,
      .inputs = {{.shape = x, .gap = max ? 1e-5 : 0}},
      .build = [=](const Scope& scope,
                   const Ins& in) { return Outs{max ? ops::MaxPool(scope, in[0], o) : ops::AvgPool(scope, in[0], o)}; },
      .reference = reference,
      .more_shapes = std::move(more_shapes),
      .tolerance = 4,
      .gradient_tolerance = 4,
      .unknown_axes = {0, 1, 2, 3}};
}

OpCase LrnCase(const std::string& name, const ops::LrnOptions& o) {
  const auto reference = [=](const Arrays& in) {
    const int64_t channels = in[0].shape[-1];
    Array y(in[0].shape);
    for (int64_t i = 0; i < y.size(); ++i) {
      const int64_t c = i % channels;
      double sum = 0;
      for (int64_t j = std::max<int64_t>(c - o.depth_radius, 0); j <= std::min(c + o.depth_radius, channels - 1); ++j) {
        sum += in[0][i - c + j] * in[0][i - c + j];
      }
      y[i] = in[0][i] * std::pow(o.bias + o.alpha * sum, -o.beta);
    }
    return Arrays{y};
  };
  return {.name = name,
          .inputs = {{{2, 2, 1, 7}}},
          .build = [=](const Scope& scope,
                       const Ins& in) { return Outs{ops::LocalResponseNormalization(scope, in[0], o)}; },
          .reference = reference,
          .more_shapes = {{{1, 1, 1, 1}},
                          {{0, 2, 2, 3}},
                          {{2, 3, 3, 64}},
                          {{2, 3, 3, 70}},
                          {{20, 12, 12, 33}},
                          {{5, 7, 3, 24}},
                          {{3, 2048}}},
          .tolerance = 4,
          .unknown_axes = {0, 3}};
}

// The gradient, `masked` where x is the output of a ReLU, whose gradient comes next.
OpCase LrnGradCase(const std::string& name, bool masked, const ops::LrnOptions& o,
                   std::vector<std::vector<Shape>> more_shapes) {
  const auto reference = [=](const Arrays& in) {
    const Array &dy = in[0], &x = in[1];
    const int64_t channels = x.shape[-1], radius = o.depth_radius;
    const auto sum_around = [&](int64_t i, const auto& value) {
      const int64_t c = i % channels;
      double sum = 0;
      for (int64_t j = std::max<int64_t>(c - radius, 0); j <= std::min(c + radius, channels - 1); ++j) {
        sum += value(i - c + j);
      }
      return sum;
    };
    const auto base = [&](int64_t i) {
      return o.bias + o.alpha * sum_around(i, [&](int64_t j) { return x[j] * x[j]; });
    };
    Array dx(x.shape);
    for (int64_t i = 0; i < x.size(); ++i) {
      const double sum = sum_around(i, [&](int64_t j) { return dy[j] * x[j] * std::pow(base(j), -o.beta - 1); });
      const bool zero = masked && x[i] <= 0;
      dx[i] = zero ? 0 : dy[i] * std::pow(base(i), -o.beta) - 2 * o.alpha * o.beta * x[i] * sum;
    }
    return Arrays{dx};
  };
  return {.name = name,
          .inputs = {{{2, 2, 1, 7}}, {{2, 2, 1, 7}}},
          .build =
              [=](const Scope& scope, const Ins& in) {
                return Outs{scope.Add("LRNGrad", {in[0], in[1]},
                                      {{"depth_radius", o.depth_radius},
                                       {"bias", o.bias},
                                       {"alpha", o.alpha},
                                       {"beta", o.beta},
                                       {"masked", masked}})};
              },
          .reference = reference,
          .more_shapes = std::move(more_shapes),
          .tolerance = 8,
          .gradient = false,
          .unknown_axes = {0, 3}};
}

// The ops that the fusion pass produces: product, bias and activation in one.
std::vector<OpCase> FusedCases() {
  std::vector<OpCase> cases;
  for (const std::string activation :
       {"none", "relu", "relu6", "leaky_relu", "elu", "tanh", "sigmoid", "gelu", "gelu_tanh"}) {
    const std::string in_name = absl::StrReplaceAll(activation, {{"_", ""}});  // the names of cases are letters
    const auto finish = [=](Array y, const Array& bias) {
      for (int64_t i = 0; i < y.size(); ++i) {
        const double x = y[i] + bias[i % bias.size()];
        y[i] = activation == "relu"         ? std::max(x, 0.0)
               : activation == "relu6"      ? std::clamp(x, 0.0, 6.0)
               : activation == "leaky_relu" ? (x > 0 ? x : 0.25 * x)
               : activation == "elu"        ? (x > 0 ? x : 0.25 * std::expm1(x))
               : activation == "tanh"       ? std::tanh(x)
               : activation == "sigmoid"    ? 1 / (1 + std::exp(-x))
               : activation == "gelu"       ? x / 2 * std::erfc(-x / std::sqrt(2))
               : activation == "gelu_tanh"  ? x / (1 + std::exp(-std::sqrt(8 / M_PI) * (x + 0.044715 * x * x * x)))
                                            : x;
      }
      return Arrays{y};
    };
    const Attrs attrs = {{"activation", activation}, {"alpha", 0.25}};
    cases.push_back(
        {.name = "FusedConv2D" + in_name,
         .inputs = {{{2, 5, 4, 3}}, {{3, 3, 3, 8}}, {{8}}},
         .build = [=](const Scope& scope, const Ins& in) { return Outs{scope.Add("FusedConv2D", in, attrs)}; },
         .reference = [=](const Arrays& in) { return finish(Convolve(in[0], in[1], {}), in[2]); },
         .more_shapes = {{{0, 5, 4, 3}, {3, 3, 3, 8}, {8}},
                         {{1, 1, 1, 1}, {1, 1, 1, 1}, {1}},
                         {{2, 3, 5, 20}, {1, 1, 20, 16}, {16}}},
         .tolerance = 16,
         .gradient = false,
         .thread_dependent = true});
    cases.push_back(
        {.name = "FusedMatMul" + in_name,
         .inputs = {{{6, 5}}, {{5, 7}}, {{7}}},
         .build = [=](const Scope& scope, const Ins& in) { return Outs{scope.Add("FusedMatMul", in, attrs)}; },
         .reference =
             [=](const Arrays& in) {
               const int64_t m = in[0].shape[0], k = in[0].shape[1], n = in[1].shape[1];
               Array y({m, n});
               for (int64_t i = 0; i < m * n * k; ++i) {
                 y[i / k] += in[0][i / k / n * k + i % k] * in[1][i % k * n + i / k % n];
               }
               return finish(y, in[2]);
             },
         .more_shapes =
             {{{0, 5}, {5, 7}, {7}}, {{3, 0}, {0, 2}, {2}}, {{1, 1}, {1, 1}, {1}}, {{40, 30}, {30, 50}, {50}}},
         .tolerance = 16,
         .gradient = false,
         .thread_dependent = true});
  }
  const auto gradient = [](const Array& x, const Array& filter, const Array& dy) {
    Array dfilter(filter.shape), dbias({filter.shape[3]});
    for (int64_t tap = 0; tap < dfilter.size(); ++tap) {
      Array one(filter.shape);
      one[tap] = 1;
      const Array slope = Convolve(x, one, {});
      for (int64_t i = 0; i < dy.size(); ++i) dfilter[tap] += slope[i] * dy[i];
    }
    for (int64_t i = 0; i < dy.size(); ++i) dbias[i % dbias.size()] += dy[i];
    return Arrays{dfilter, dbias};
  };
  // The gradient where y > 0; y is kept away from 0. Filters have odd sizes, so the padding is the same on both sides.
  const auto input_gradient = [](const Arrays& in, const Array& sum) {
    const Array &filter = in[1], &dy = in[2];
    const int64_t height = in[0].shape[1], width = in[0].shape[2], c = in[0].shape[3];
    const int64_t r = filter.shape[0], s = filter.shape[1], k = filter.shape[3];
    Array dx(in[0].shape);
    for (int64_t at = 0; at < dx.size(); ++at) {
      if (in[0][at] <= 0) continue;
      const int64_t x = at / c % width, y = at / c / width % height, image = at / c / width / height;
      for (int64_t tap = 0; tap < r * s; ++tap) {
        const int64_t to_y = y + r / 2 - tap / s, to_x = x + s / 2 - tap % s;
        if (to_y < 0 || to_y >= height || to_x < 0 || to_x >= width) continue;
        for (int64_t i = 0; i < k; ++i) {
          dx[at] += filter[(tap * c + at % c) * k + i] * dy[((image * height + to_y) * width + to_x) * k + i];
        }
      }
      dx[at] += sum[at];
    }
    return Arrays{dx};
  };
  OpCase masked{.name = "Conv2DBackpropInputReluGrad",
                .inputs = {{{2, 5, 4, 3}}, {{3, 3, 3, 8}}, {{2, 5, 4, 8}}},
                .build =
                    [](const Scope& scope, const Ins& in) {
                      const Output y = ops::Add(scope, in[0], ops::Sign(scope, in[0]));
                      return Outs{scope.Add("Conv2DBackpropInputReluGrad", {in[0], in[1], in[2], y})};
                    },
                .reference = [=](const Arrays& in) { return input_gradient(in, Array(in[0].shape)); },
                .more_shapes = {{{0, 5, 4, 3}, {3, 3, 3, 8}, {0, 5, 4, 8}},
                                {{1, 5, 4, 3}, {3, 3, 3, 0}, {1, 5, 4, 0}},
                                {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}},
                                {{1, 7, 8, 32}, {3, 3, 32, 16}, {1, 7, 8, 16}},
                                {{2, 3, 5, 16}, {1, 1, 16, 20}, {2, 3, 5, 20}}},
                .tolerance = 32,
                .gradient = false,
                .thread_dependent = true};
  cases.push_back(masked);
  masked.name = "Conv2DBackpropInputAddReluGrad";
  masked.inputs.push_back(masked.inputs[0]);
  for (auto& shapes : masked.more_shapes) shapes.push_back(Shape(shapes[0]));
  masked.build = [](const Scope& scope, const Ins& in) {
    const Output y = ops::Add(scope, in[0], ops::Sign(scope, in[0]));
    return Outs{scope.Add("Conv2DBackpropInputAddReluGrad", {in[0], in[1], in[2], y, in[3]})};
  };
  masked.reference = [=](const Arrays& in) { return input_gradient(in, in[3]); };
  cases.push_back(masked);
  cases.push_back(
      {.name = "Conv2DBackpropFilterBias",
       .inputs = {{{2, 5, 4, 3}}, {{3, 3, 3, 8}}, {{2, 5, 4, 8}}},
       .build =
           [](const Scope& scope, const Ins& in) {
             return scope.AddAll("Conv2DBackpropFilterBias", {in[0], in[1], in[2]});
           },
       .reference = [=](const Arrays& in) { return gradient(in[0], in[1], in[2]); },
       .more_shapes = {{{0, 5, 4, 3}, {3, 3, 3, 8}, {0, 5, 4, 8}}, {{1, 2, 2, 1}, {1, 1, 1, 1}, {1, 2, 2, 1}}},
       .tolerance = 16,
       .gradient = false,
       .thread_dependent = true});
  return cases;
}

}  // namespace

std::vector<OpCase> NnImageCases() {
  // Whole packs, with the radius for which GPUs compute in packs: several blocks of threads, and rows that fill one.
  const std::vector<std::vector<Shape>> lrn_packs = {
      {{0, 24}, {0, 24}}, {{5, 7, 3, 24}, {5, 7, 3, 24}}, {{2, 4}, {2, 4}}, {{3, 2048}, {3, 2048}}};
  std::vector<OpCase> cases = {
      ConvCase("Conv2D", {2, 5, 4, 3}, {3, 3, 3, 4}, {},
               {{{1, 1, 1, 1}, {1, 1, 1, 1}},
                {{0, 5, 4, 3}, {3, 3, 3, 4}},
                {{2, 12, 12, 16}, {5, 5, 16, 16}},
                {{2, 7, 9, 5}, {1, 1, 5, 300}}}),
      ConvCase("Conv2DPointwise", {2, 3, 4, 5}, {1, 1, 5, 6}, {}, {{{2, 5, 7, 48}, {1, 1, 48, 16}}}),
      ConvCase("Conv2DStrided", {2, 7, 6, 2}, {3, 2, 2, 3}, {.stride_h = 2, .stride_w = 3, .padding = Padding::Valid()},
               {{{2, 13, 11, 16}, {3, 3, 16, 16}}}),
      ConvCase("Conv2DSameStrided", {1, 7, 6, 2}, {3, 3, 2, 3}, {.stride_h = 2, .stride_w = 2}),
      ConvCase("Conv2DExplicit", {1, 5, 4, 2}, {3, 3, 2, 3}, {.padding = Padding::Explicit(2, 0, 1, 3)}),
      ConvCase("Conv2DDilated", {1, 7, 8, 2}, {3, 2, 2, 3}, {.dilation_h = 2, .dilation_w = 3}),
      ConvCase("Conv2DGroups", {1, 4, 4, 6}, {3, 3, 2, 9}, {.groups = 3}, {{{2, 6, 6, 24}, {3, 3, 8, 48}}}),
      ConvCase("Conv2DDepthwise", {1, 4, 4, 5}, {3, 3, 1, 5}, {.stride_h = 2, .stride_w = 2, .groups = 5}),
      ConvCase("Conv2DDepthwiseVectors", {2, 3, 4, 16}, {3, 3, 1, 16}, {.padding = Padding::Same(), .groups = 16}),
      PoolCase("MaxPool", true, {2, 5, 6, 3}, {.height = 3, .width = 3},
               {{{1, 1, 1, 1}}, {{0, 4, 4, 3}}, {{2, 12, 12, 17}}, {{2, 24, 24, 64}}}),
      PoolCase("MaxPoolValid", true, {2, 5, 6, 3},
               {.height = 2, .width = 3, .stride_w = 1, .padding = Padding::Valid()}),
      PoolCase("MaxPoolDisjoint", true, {2, 5, 7, 3},
               {.height = 2, .width = 2, .stride_h = 2, .stride_w = 2, .padding = Padding::Valid()},
               {{{1, 31, 31, 67}}, {{0, 4, 4, 3}}, {{3, 2, 2, 130}}}),
      PoolCase("MaxPoolDisjointPadded", true, {2, 7, 6, 5},
               {.height = 3, .width = 4, .stride_h = 3, .stride_w = 4, .padding = Padding::Explicit(1, 0, 2, 3)}),
      PoolCase("MaxPoolExplicit", true, {1, 5, 6, 2},
               {.height = 3, .width = 2, .stride_h = 1, .padding = Padding::Explicit(2, 1, 0, 1)}),
      PoolCase("MaxPoolLargeWindow", true, {1, 17, 17, 2},
               {.height = 16, .width = 16, .stride_h = 1, .stride_w = 1, .padding = Padding::Valid()}),
      PoolCase("AvgPool", false, {2, 5, 6, 3}, {.height = 3, .width = 3},
               {{{1, 1, 1, 1}}, {{0, 4, 4, 3}}, {{2, 12, 12, 300}}, {{3, 9, 7, 24}}}),
      PoolCase("AvgPoolExplicit", false, {1, 5, 6, 2},
               {.height = 3, .width = 2, .stride_h = 1, .padding = Padding::Explicit(2, 1, 0, 1)}),
      LrnCase("LRN", {.depth_radius = 4, .bias = 1, .alpha = 0.1, .beta = 0.75}),
      LrnCase("LRNHalfPower", {.depth_radius = 2, .bias = 0.5, .alpha = 1, .beta = 0.5}),
      LrnCase("LRNAnyPower", {.depth_radius = 9, .bias = 2, .alpha = 0.5, .beta = 0.6}),
      LrnGradCase("LRNGradMasked", /*masked=*/true, {.depth_radius = 2, .bias = 1, .alpha = 0.1, .beta = 0.75},
                  {{{1, 1, 1, 1}, {1, 1, 1, 1}}, {{0, 2, 2, 3}, {0, 2, 2, 3}}, {{20, 12, 12, 33}, {20, 12, 12, 33}}}),
      LrnGradCase("LRNGradOfPacks", /*masked=*/false, {.depth_radius = 4, .bias = 1, .alpha = 0.1, .beta = 0.75},
                  lrn_packs),
      LrnGradCase("LRNGradMaskedOfPacks", /*masked=*/true, {.depth_radius = 4, .bias = 2, .alpha = 0.3, .beta = 0.6},
                  lrn_packs),
  };
  for (OpCase& op_case : FusedCases()) cases.push_back(std::move(op_case));
  return cases;
}

}  // namespace belfry::harness
