// Cases of ops that change the size of images.
#include <algorithm>
#include <cmath>

#include "ops/array.h"
#include "ops/nn.h"
#include "tests/ops/cases/array_inputs.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/indexing.h"

namespace belfry::harness {
namespace {

// The value of a line of pixels at output `o` of `out`, by the definition.
double Interpolated(int64_t in, int64_t out, int64_t o, bool bilinear, const std::function<double(int64_t)>& pixel) {
  const double at = (static_cast<double>(o) + 0.5) * static_cast<double>(in) / static_cast<double>(out);
  if (!bilinear) return pixel(static_cast<int64_t>(std::floor(at)));
  const double centre = std::clamp(at - 0.5, 0.0, static_cast<double>(in - 1));
  const auto low = static_cast<int64_t>(std::floor(centre));
  const double weight = centre - std::floor(centre);
  return (1 - weight) * pixel(low) + weight * pixel(std::min(low + 1, in - 1));
}

Array Resized(const Array& x, int64_t height, int64_t width, bool bilinear) {
  const Shape& s = x.shape;
  return Generate({s[0], height, width, s[3]}, [&](const Index& i) {
    return Interpolated(s[1], height, i[1], bilinear, [&](int64_t h) {
      return Interpolated(s[2], width, i[2], bilinear, [&](int64_t w) { return At(x, {i[0], h, w, i[3]}); });
    });
  });
}

OpCase ResizeCase(const std::string& name, bool bilinear, int64_t height, int64_t width,
                  std::vector<std::vector<Shape>> more_shapes) {
  return {.name = name,
          .inputs = {{{2, 3, 4, 3}}},
          .build =
              [=](const Scope& scope, const Ins& in) {
                return Outs{bilinear ? ops::ResizeBilinear(scope, in[0], height, width)
                                     : ops::ResizeNearest(scope, in[0], height, width)};
              },
          .reference = [=](const Arrays& in) { return Arrays{Resized(in[0], height, width, bilinear)}; },
          .more_shapes = std::move(more_shapes),
          .tolerance = 4,
          .unknown_axes = {0, 1, 2, 3}};
}

OpCase TwiceCase(const std::string& name, bool bilinear) {
  return {
      .name = name,
      .inputs = {{{2, 3, 2, 5}}},
      .build =
          [=](const Scope& scope, const Ins& in) {
            const ops::Extent height = ops::Extent::Of(in[0], 1) * 2, width = ops::Extent::Of(in[0], 2) * 3;
            return Outs{bilinear ? ops::ResizeBilinear(scope, in[0], height, width)
                                 : ops::ResizeNearest(scope, in[0], height, width)};
          },
      .reference =
          [=](const Arrays& in) { return Arrays{Resized(in[0], 2 * in[0].shape[1], 3 * in[0].shape[2], bilinear)}; },
      .more_shapes = {{{1, 1, 1, 1}}, {{0, 3, 2, 5}}, {{2, 0, 2, 3}}, {{1, 5, 7, 37}}},
      .tolerance = 4,
      .unknown_axes = {0, 1, 2, 3}};
}

// x [N, H * b, W * b, C] as [N, H, W, b * b * C], and back.
Array Packed(const Array& x, int64_t b) {
  const Shape& s = x.shape;
  return Generate({s[0], s[1] / b, s[2] / b, s[3] * b * b}, [&](const Index& i) {
    const int64_t c = i[3] % s[3], j = i[3] / s[3] % b, k = i[3] / s[3] / b;
    return At(x, {i[0], i[1] * b + k, i[2] * b + j, c});
  });
}
Array Unpacked(const Array& x, int64_t b) {
  const Shape& s = x.shape;
  const int64_t channels = s[3] / b / b;
  return Generate({s[0], s[1] * b, s[2] * b, channels}, [&](const Index& i) {
    return At(x, {i[0], i[1] / b, i[2] / b, (i[1] % b * b + i[2] % b) * channels + i[3]});
  });
}

}  // namespace

std::vector<OpCase> ResizeCases() {
  const std::vector<std::vector<Shape>> shapes = {{{1, 1, 1, 1}}, {{0, 3, 4, 3}}, {{2, 13, 5, 21}}, {{1, 9, 8, 0}}};
  std::vector<OpCase> cases = {ResizeCase("ResizeNearest", false, 5, 3, shapes),
                               ResizeCase("ResizeBilinear", true, 5, 3, shapes),
                               ResizeCase("ResizeBilinearToOne", true, 1, 1, {{{1, 7, 8, 2}}}),
                               ResizeCase("ResizeBilinearToNone", true, 0, 4, {{{1, 0, 8, 2}}}),
                               TwiceCase("ResizeNearestByFactors", false),
                               TwiceCase("ResizeBilinearByFactors", true)};
  cases.push_back({.name = "DepthToSpace",
                   .inputs = {Any({2, 3, 2, 12})},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::DepthToSpace(scope, in[0], 2)}; },
                   .reference = [](const Arrays& in) { return Arrays{Unpacked(in[0], 2)}; },
                   .dtypes = kEveryType,
                   .more_shapes = {{{1, 1, 1, 4}}, {{0, 3, 2, 12}}, {{2, 5, 7, 64}}},
                   .unknown_axes = {0, 1, 2, 3}});
  cases.push_back({.name = "SpaceToDepth",
                   .inputs = {Any({2, 6, 3, 5})},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::SpaceToDepth(scope, in[0], 3)}; },
                   .reference = [](const Arrays& in) { return Arrays{Packed(in[0], 3)}; },
                   .dtypes = kEveryType,
                   .more_shapes = {{{1, 3, 3, 1}}, {{0, 3, 3, 2}}, {{2, 0, 9, 1}}},
                   .unknown_axes = {0, 1, 2, 3}});
  return cases;
}

}  // namespace belfry::harness
