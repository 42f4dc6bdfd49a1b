// Cases of transposed, one-dimensional and depthwise convolutions.
#include "ops/nn.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/indexing.h"

namespace belfry::harness {
namespace {

using ops::Padding;

// Adds each element of x, times the filter, to y, whose first window begins `before` elements outside.
Array Spread(const Array& x, const Array& filter, const Shape& to, const ops::Conv2DOptions& o,
             const int64_t before[2]) {
  Array y(to);
  const int64_t group_out = filter.shape[2], group_in = x.shape[3] / o.groups;
  ForEachIndex(x.shape, [&](const Index& i) {
    for (int64_t tap = 0; tap < filter.shape[0] * filter.shape[1] * group_out; ++tap) {
      const int64_t c = tap % group_out, s = tap / group_out % filter.shape[1], r = tap / group_out / filter.shape[1];
      const int64_t h = i[1] * o.stride_h - before[0] + r * o.dilation_h;
      const int64_t w = i[2] * o.stride_w - before[1] + s * o.dilation_w;
      if (h < 0 || h >= to[1] || w < 0 || w >= to[2]) continue;
      y[((i[0] * to[1] + h) * to[2] + w) * to[3] + i[3] / group_in * group_out + c] +=
          At(x, i) * At(filter, {r, s, c, i[3]});
    }
  });
  return y;
}

OpCase TransposeCase(const std::string& name, const Shape& x, const Shape& filter, const ops::Conv2DOptions& options,
                     const ops::ImageExtents& extents, const std::function<Shape(const Shape& x)>& image,
                     int64_t before_h, int64_t before_w, std::vector<std::vector<Shape>> more_shapes = {}) {
  return {.name = name,
          .inputs = {{x}, {filter}},
          .build = [=](const Scope& scope,
                       const Ins& in) { return Outs{ops::Conv2DTranspose(scope, in[0], in[1], options, extents)}; },
          .reference =
              [=](const Arrays& in) {
                const Shape two = image(in[0].shape);
                const int64_t before[2] = {before_h, before_w};
                const Shape to = {in[0].shape[0], two[0], two[1], in[1].shape[2] * options.groups};
                return Arrays{Spread(in[0], in[1], to, options, before)};
              },
          .more_shapes = std::move(more_shapes),
          .tolerance = 8,
          .float32_error = 3e-5,
          .gradient_tolerance = 8,
          .unknown_axes = options.padding.kind == Padding::kValid ? std::vector<int>{3} : std::vector<int>{0, 1, 2, 3},
          .thread_dependent = true};
}

OpCase SequenceCase(const std::string& name, const ops::Conv1DOptions& o, int64_t before, int64_t after) {
  return {.name = name,
          .inputs = {{{2, 9, 4}}, {{3, 2, 6}}},
          .build = [=](const Scope& scope, const Ins& in) { return Outs{ops::Conv1D(scope, in[0], in[1], o)}; },
          .reference =
              [=](const Arrays& in) {
                const Shape& s = in[0].shape;
                const int64_t group = in[1].shape[2] / o.groups, length = s[1] + before + after - 2 * o.dilation;
                return Arrays{Generate({s[0], (length - 1) / o.stride + 1, in[1].shape[2]}, [&](const Index& i) {
                  double sum = 0;
                  for (int64_t tap = 0; tap < 3 * in[1].shape[1]; ++tap) {
                    const int64_t r = tap / in[1].shape[1], c = tap % in[1].shape[1];
                    const int64_t at = i[1] * o.stride - before + r * o.dilation;
                    if (at < 0 || at >= s[1]) continue;
                    sum += At(in[0], {i[0], at, i[2] / group * in[1].shape[1] + c}) * At(in[1], {r, c, i[2]});
                  }
                  return sum;
                })};
              },
          .more_shapes = {{{0, 9, 4}, {3, 2, 6}}, {{1, 65, 16}, {3, 8, 16}}},
          .tolerance = 8,
          .float32_error = 3e-5,
          .gradient_tolerance = 8,
          .thread_dependent = true};
}

OpCase DepthwiseCase(const std::string& name, const Shape& x, const Shape& filter, const ops::Conv2DOptions& o,
                     int64_t out_h, int64_t out_w, int64_t before) {
  return {
      .name = name,
      .inputs = {{x}, {filter}},
      .build = [=](const Scope& scope, const Ins& in) { return Outs{ops::DepthwiseConv2D(scope, in[0], in[1], o)}; },
      .reference =
          [=](const Arrays& in) {
            const Shape &s = in[0].shape, &f = in[1].shape;
            return Arrays{Generate({s[0], out_h, out_w, f[2] * f[3]}, [&](const Index& i) {
              double sum = 0;
              for (int64_t tap = 0; tap < f[0] * f[1]; ++tap) {
                const int64_t h = i[1] * o.stride_h - before + tap / f[1] * o.dilation_h;
                const int64_t w = i[2] * o.stride_w - before + tap % f[1] * o.dilation_w;
                if (h < 0 || h >= s[1] || w < 0 || w >= s[2]) continue;
                sum += At(in[0], {i[0], h, w, i[3] / f[3]}) *
                       At(in[1], {tap / f[1], tap % f[1], i[3] / f[3], i[3] % f[3]});
              }
              return sum;
            })};
          },
      .tolerance = 8,
      .gradient_tolerance = 8,
      .unknown_axes = {0},
      .thread_dependent = true};
}

}  // namespace

std::vector<OpCase> ConvolutionCases() {
  const auto twice = [](const Shape& x) { return Shape({2 * x[1], 2 * x[2]}); };
  return {
      TransposeCase("Conv2DTransposeSame", {2, 3, 2, 4}, {3, 3, 3, 4}, {.stride_h = 2, .stride_w = 2}, {}, twice, 0, 0,
                    {{{0, 3, 2, 4}, {3, 3, 3, 4}}, {{1, 1, 1, 1}, {3, 3, 1, 1}}, {{1, 5, 6, 16}, {3, 3, 16, 16}}}),
      TransposeCase(
          "Conv2DTransposeValid", {1, 3, 2, 2}, {3, 2, 3, 2},
          {.stride_h = 2, .stride_w = 3, .padding = Padding::Valid(), .dilation_w = 2}, {},
          [](const Shape& x) {
            return Shape({(x[1] - 1) * 2 + 3, (x[2] - 1) * 3 + 3});
          },
          0, 0),
      TransposeCase(
          "Conv2DTransposeExtents", {1, 3, 2, 6}, {4, 4, 2, 6},
          {.stride_h = 2, .stride_w = 2, .padding = Padding::Explicit(1, 2, 1, 1), .groups = 3},
          {.height = 6, .width = 5},
          [](const Shape&) {
            return Shape({6, 5});
          },
          1, 1),
      SequenceCase("Conv1DValid", {.stride = 2, .padding = Padding::Valid(), .groups = 2}, 0, 0),
      SequenceCase("Conv1DCausal", {.padding = Padding::Explicit(0, 0, 4, 0), .dilation = 2, .groups = 2}, 4, 0),
      DepthwiseCase("DepthwiseConv2D", {2, 4, 5, 3}, {3, 3, 3, 1}, {}, 4, 5, 1),
      DepthwiseCase("DepthwiseConv2DTimesTwo", {1, 7, 7, 16}, {3, 2, 16, 2},
                    {.stride_h = 2, .stride_w = 2, .padding = Padding::Valid()}, 3, 3, 0),
  };
}

}  // namespace belfry::harness
