#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/common/compute_impl.h"
#include "ops/copy/extents_impl.h"
#include "ops/nn.h"
#include "ops/resize/resize_impl.h"
#include "ops/resize/resize_ops.h"

namespace belfry::ops {
namespace {

// A linear map along one axis, row by row: result i is the sum of weight * element `at` over [begin[i], begin[i + 1]).
template <class C>
struct AxisMap {
  struct Entry {
    int64_t at;
    C weight;
  };
  std::vector<size_t> begin = {0};
  std::vector<Entry> entries;

  void Add(int64_t at, C weight) {
    if (weight != C(0)) entries.push_back({at, weight});
  }
  int64_t rows() const { return static_cast<int64_t>(begin.size()) - 1; }
};

template <class C>
AxisMap<C> ForwardMap(const ResizeAxis& axis) {
  AxisMap<C> map;
  for (int64_t o = 0; o < axis.out; ++o) {
    const auto taps = axis.TapsOf<C>(o);
    map.Add(taps.low, taps.WeightOf(taps.low));
    if (taps.high != taps.low) map.Add(taps.high, taps.weight);
    map.begin.push_back(map.entries.size());
  }
  return map;
}

template <class C>
AxisMap<C> BackwardMap(const ResizeAxis& axis) {
  AxisMap<C> map;
  for (int64_t i = 0; i < axis.in; ++i) {
    for (int64_t o = axis.Begin(i); o < axis.End(i); ++o) map.Add(o, axis.TapsOf<C>(o).WeightOf(i));
    map.begin.push_back(map.entries.size());
  }
  return map;
}

// The maps along both axes, of images [n, from_h, from_w, c].
template <class C>
struct ImageMap {
  int64_t n, from_h, from_w, c;
  AxisMap<C> h, w;
  bool copies = false;  // each pixel is one of the image
};

// `width` adjacent channels of pixel (row, column) of the result; their sums stay in registers.
template <class T, int width>
void MapChannels(const ImageMap<Compute<T>>& map, const T* image, int64_t row, int64_t column, T* y) {
  using C = Compute<T>;
  C sums[width] = {};
  for (size_t r = map.h.begin[row]; r < map.h.begin[row + 1]; ++r) {
    const T* const line = image + map.h.entries[r].at * map.from_w * map.c;
    for (size_t s = map.w.begin[column]; s < map.w.begin[column + 1]; ++s) {
      const C weight = map.h.entries[r].weight * map.w.entries[s].weight;
      const T* const from = line + map.w.entries[s].at * map.c;
      for (int k = 0; k < width; ++k) sums[k] += weight * static_cast<C>(from[k]);
    }
  }
  for (int k = 0; k < width; ++k) y[k] = static_cast<T>(sums[k]);
}

template <class T>
void MapPixel(const ImageMap<Compute<T>>& map, const T* image, int64_t row, int64_t column, T* y) {
  if (map.copies) {
    std::copy_n(image + (map.h.entries[row].at * map.from_w + map.w.entries[column].at) * map.c, map.c, y);
    return;
  }
  int64_t k = 0;
  for (; k + 64 <= map.c; k += 64) MapChannels<T, 64>(map, image + k, row, column, y + k);
  for (; k + 16 <= map.c; k += 16) MapChannels<T, 16>(map, image + k, row, column, y + k);
  for (; k + 4 <= map.c; k += 4) MapChannels<T, 4>(map, image + k, row, column, y + k);
  switch (map.c - k) {
    case 3: return MapChannels<T, 3>(map, image + k, row, column, y + k);
    case 2: return MapChannels<T, 2>(map, image + k, row, column, y + k);
    case 1: return MapChannels<T, 1>(map, image + k, row, column, y + k);
    default: return;
  }
}

template <class T>
Kernel MapKernel(ImageMap<Compute<T>> given) {
  return Kernel{[map = std::move(given)](const KernelContext& context) {
    const T* const x = context.input<T>(0);
    T* const y = context.output<T>(0);
    const int64_t rows = map.h.rows(), columns = map.w.rows();
    const auto taps = static_cast<double>(map.w.entries.size() * map.h.entries.size());
    const double cost = taps / static_cast<double>(std::max<int64_t>(rows, 1)) * static_cast<double>(map.c);
    ParallelFor(map.n * rows, cost, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const T* const image = x + at / rows * map.from_h * map.from_w * map.c;
        for (int64_t column = 0; column < columns; ++column) {
          MapPixel(map, image, at % rows, column, y + (at * columns + column) * map.c);
        }
      }
    });
    return absl::OkStatus();
  }};
}

template <class T>
absl::StatusOr<Kernel> MakeResize(const KernelSpec& spec) {
  using C = Compute<T>;
  const ResizeLayout layout(spec.attrs, spec.inputs[0].shape, spec.outputs[0].shape);
  return MapKernel<T>({layout.n, layout.h.in, layout.w.in, layout.c, ForwardMap<C>(layout.h), ForwardMap<C>(layout.w),
                       /*copies=*/!layout.h.bilinear});
}

template <class T>
absl::StatusOr<Kernel> MakeResizeGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const ResizeLayout layout(spec.attrs, spec.outputs[0].shape, spec.inputs[0].shape);
  return MapKernel<T>(
      {layout.n, layout.h.out, layout.w.out, layout.c, BackwardMap<C>(layout.h), BackwardMap<C>(layout.w)});
}

absl::Status CheckResize(const Attrs& attrs, const Shape& images, int64_t height, int64_t width) {
  if (const std::string& method = attrs.String("method"); method != "nearest" && method != "bilinear") {
    return absl::InvalidArgumentError(absl::StrCat("method must be nearest or bilinear, but is ", method));
  }
  if (images.rank() != 4) {
    return absl::InvalidArgumentError(absl::StrCat("images must be [N, H, W, C], not ", images.ToString()));
  }
  constexpr int64_t kLargest = int64_t{1} << 30;  // keeps the products of two extents from overflowing
  if (std::max({images[1], images[2], height, width}) > kLargest) {
    return absl::InvalidArgumentError(absl::StrCat("height and width must be at most ", kLargest));
  }
  if ((images[1] == 0 && height != 0) || (images[2] == 0 && width != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot resize empty images ", images.ToString(), " to ", height, " x ", width));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Shape>> ResizeShape(const ShapeArgs& args) {
  const Shape& images = args.inputs[0];
  ASSIGN_OR_RETURN(const Shape to, CarriedShape(args.inputs[1]));
  if (to.rank() != 2) return absl::InvalidArgumentError("takes the height and the width");
  RETURN_IF_ERROR(CheckResize(args.attrs, images, to[0], to[1]));
  return std::vector<Shape>{{images[0], to[0], to[1], images[3]}};
}

absl::StatusOr<std::vector<Shape>> ResizeGradShape(const ShapeArgs& args) {
  const Shape &dy = args.inputs[0], &images = args.inputs[1];
  if (dy.rank() != 4) return absl::InvalidArgumentError(absl::StrCat("dy must be images, not ", dy.ToString()));
  RETURN_IF_ERROR(CheckResize(args.attrs, images, dy[1], dy[2]));
  RETURN_IF_ERROR(Shape({images[0], dy[1], dy[2], images[3]}).Merge(dy).status());
  return std::vector<Shape>{images};
}

Output AddResize(const Scope& scope, Output x, const Extent& height, const Extent& width, const std::string& method) {
  return scope.Add("Resize", {x, CarrierOf(scope, {height, width})}, {{"method", method}});
}

std::vector<Output> ResizeGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  return {scope.Add("ResizeGrad", {dy[0], node.input(0)}, {{"method", node.attrs().String("method")}}), Output()};
}

// Resizing is linear, so the gradient of its gradient is resizing.
std::vector<Output> ResizeGradGradient(const Scope& scope, const Node& node, absl::Span<const Output> ddx) {
  const Output dy = node.input(0);
  return {AddResize(scope, ddx[0], Extent::Of(dy, 1), Extent::Of(dy, 2), node.attrs().String("method")), Output()};
}

}  // namespace

Output ResizeNearest(OpScope scope, Output x, const Extent& height, const Extent& width) {
  return AddResize(scope, x, height, width, "nearest");
}

Output ResizeBilinear(OpScope scope, Output x, const Extent& height, const Extent& width) {
  return AddResize(scope, x, height, width, "bilinear");
}

void RegisterResizeOps(OpRegistry& registry) {
  registry.Add({.name = "Resize",
                .inputs = {{.name = "x"}, {.name = "extents", .type = kCarrierType, .shape_only = true}},
                .outputs = {{.name = "y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"method", std::string(), true}},
                .shape = ResizeShape,
                .gradient = ResizeGradient,
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeResize<typename decltype(tag)::type>; })});
  registry.Add({.name = "ResizeGrad",
                .inputs = {{.name = "dy"}, {.name = "x", .shape_only = true}},
                .outputs = {{.name = "dx"}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"method", std::string(), true}},
                .shape = ResizeGradShape,
                .gradient = ResizeGradGradient,
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeResizeGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
