#include <cmath>
#include <limits>

#include "ops/array.h"
#include "ops/common/op_rules_impl.h"
#include "ops/common/window.h"
#include "ops/math.h"
#include "ops/onednn/in_float32_impl.h"
#include "ops/onednn/pooling.h"
#include "ops/onednn/primitive_kernel_impl.h"
#include "ops/pooling/disjoint_pool_impl.h"
#include "ops/pooling/pool_impl.h"
#include "ops/pooling/pooling_ops.h"

namespace belfry::ops {
namespace {

using onednn::Pool2DShape;
using onednn::PoolKind;

// Dtypes of the winners, which are positions in a window. The same as oneDNN's, so that its kernels and ours can be
// mixed.
constexpr DType kWinnerTypes[] = {DType::kUInt8, DType::kInt32};
DType WinnerType(int64_t window) { return window <= 255 ? DType::kUInt8 : DType::kInt32; }

std::vector<AttrDef> PoolAttrDefs() {
  std::vector<AttrDef> attrs = WindowAttrDefs();
  attrs.push_back({"ksize", std::vector<int64_t>(), true});
  return attrs;
}

Pool2DShape Geometry(const KernelSpec& spec, const TensorSpec& x, PoolKind kind) {
  const Window window = *PoolWindow(spec.attrs, x.shape);
  return {.kind = kind,
          .n = x.shape[0],
          .h = x.shape[1],
          .w = x.shape[2],
          .c = x.shape[3],
          .r = window.h.window,
          .s = window.w.window,
          .stride_h = window.h.stride,
          .stride_w = window.w.stride,
          .pad_top = window.h.pad_low,
          .pad_bottom = window.h.pad_high,
          .pad_left = window.w.pad_low,
          .pad_right = window.w.pad_high,
          .dtype = x.dtype};
}

// Calls body(tap, offset in x) for the taps of the window at output (oh, ow) of image n that lie on the image.
template <class Body>
void ForEachTap(const Pool2DShape& p, int64_t n, int64_t oh, int64_t ow, const Body& body) {
  for (int64_t r = 0; r < p.r; ++r) {
    const int64_t h = oh * p.stride_h - p.pad_top + r;
    if (h < 0 || h >= p.h) continue;
    for (int64_t s = 0; s < p.s; ++s) {
      const int64_t w = ow * p.stride_w - p.pad_left + s;
      if (w >= 0 && w < p.w) body(r * p.s + s, ((n * p.h + h) * p.w + w) * p.c);
    }
  }
}

// Calls body(n, oh, ow, offset in y) for every window; images run in parallel.
template <class Body>
void ForEachWindow(const Pool2DShape& p, const Body& body) {
  const int64_t rows = p.out_h(), columns = p.out_w();
  ParallelFor(p.n, static_cast<double>(rows * columns * p.c * p.r * p.s), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * rows * columns; at < end * rows * columns; ++at) {
      body(at / columns / rows, at / columns % rows, at % columns, at * p.c);
    }
  });
}

// Maximum of one window. Ties go to the first tap; any number beats NaN.
template <class T, class Winner>
void MaxOfWindow(const Pool2DShape& p, int64_t n, int64_t oh, int64_t ow, const T* x, T* y, Winner* winners) {
  using C = Compute<T>;
  bool first = true;
  ForEachTap(p, n, oh, ow, [&](int64_t tap, int64_t from) {
    for (int64_t c = 0; c < p.c; ++c) {
      const C best = static_cast<C>(y[c]), here = static_cast<C>(x[from + c]);
      if (!first && !(here > best) && !(std::isnan(best) && !std::isnan(here))) continue;
      y[c] = x[from + c];
      winners[c] = static_cast<Winner>(tap);
    }
    first = false;
  });
}

template <class T, class Winner>
void MaxPoolLoops(const Pool2DShape& p, const T* x, T* y, Winner* winners) {
  ForEachWindow(
      p, [&](int64_t n, int64_t oh, int64_t ow, int64_t to) { MaxOfWindow(p, n, oh, ow, x, y + to, winners + to); });
}

// Repairs windows in which oneDNN finds nothing above its initial value, the lowest number (-infinity for 16 bits):
// those that hold only -infinity and NaN.
template <class T, class Winner>
void MendLowest(const Pool2DShape& p, const T* x, T* y, Winner* winners) {
  const int64_t rows = p.out_h(), columns = p.out_w();
  const auto bound = static_cast<Compute<T>>(std::numeric_limits<T>::lowest());
  ParallelFor(p.n, static_cast<double>(rows * columns * p.c), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * rows * columns; at < end * rows * columns; ++at) {
      const T* from = y + at * p.c;
      int lowest = 0;
      for (int64_t c = 0; c < p.c; ++c) lowest |= static_cast<Compute<T>>(from[c]) <= bound;
      if (lowest != 0) {
        MaxOfWindow(p, at / columns / rows, at / columns % rows, at % columns, x, y + at * p.c, winners + at * p.c);
      }
    }
  });
}

template <class T, class Winner>
void MaxPoolGradLoops(const Pool2DShape& p, const Winner* winners, const T* dy, T* dx, Compute<T>* sums) {
  std::fill_n(sums, p.n * p.h * p.w * p.c, Compute<T>(0));
  ForEachWindow(p, [&](int64_t n, int64_t oh, int64_t ow, int64_t from) {
    ForEachTap(p, n, oh, ow, [&](int64_t tap, int64_t to) {
      for (int64_t c = 0; c < p.c; ++c) {
        if (winners[from + c] == tap) sums[to + c] += static_cast<Compute<T>>(dy[from + c]);
      }
    });
  });
  Store(sums, p.n * p.h * p.w * p.c, dx);
}

template <class T>
Kernel Mended(const Pool2DShape& shape, DType winners, Kernel kernel) {
  return {[shape, small = winners == DType::kUInt8, run = std::move(kernel.run)](const KernelContext& context) {
            RETURN_IF_ERROR(run(context));
            if (small) {
              MendLowest(shape, context.input<T>(0), context.output<T>(0), context.output<uint8_t>(1));
            } else {
              MendLowest(shape, context.input<T>(0), context.output<T>(0), context.output<int32_t>(1));
            }
            return absl::OkStatus();
          },
          kernel.workspace_bytes};
}

// oneDNN 2.6 leaves some int32 winners of bfloat16 images unset.
template <class T>
bool OneDnnFindsWinners(const KernelSpec& spec, DType winners) {
  return OneDnnComputes(kDTypeOf<T>) && HasElements(spec) && !(std::is_same_v<T, BFloat16> && winners == DType::kInt32);
}

template <class T>
absl::StatusOr<Kernel> MakeMaxPool(const KernelSpec& spec) {
  const Pool2DShape shape = Geometry(spec, spec.inputs[0], PoolKind::kMax);
  if constexpr (!std::is_same_v<T, double>) {
    if (IsDisjoint(shape)) {
      return Kernel{[shape](const KernelContext& context) {
        DisjointMaxPool(shape, context.input<T>(0), context.output<T>(0), context.output<uint8_t>(1));
        return absl::OkStatus();
      }};
    }
  }
  if (OneDnnFindsWinners<T>(spec, spec.outputs[1].dtype)) {
    auto primitive = onednn::Pool2DForward(shape, /*training=*/true);
    if (!primitive.ok() || primitive->saved_bytes() == spec.outputs[1].bytes()) {
      ASSIGN_OR_RETURN(std::optional<Kernel> kernel, PrimitiveKernel(spec, std::move(primitive), {0}, {0, 1}));
      if (kernel.has_value()) return Mended<T>(shape, spec.outputs[1].dtype, *std::move(kernel));
    }
  }
  return Kernel{[shape, small = spec.outputs[1].dtype == DType::kUInt8](const KernelContext& context) {
    if (small) {
      MaxPoolLoops(shape, context.input<T>(0), context.output<T>(0), context.output<uint8_t>(1));
    } else {
      MaxPoolLoops(shape, context.input<T>(0), context.output<T>(0), context.output<int32_t>(1));
    }
    return absl::OkStatus();
  }};
}

// Inputs: x (shape only), winners, dy.
template <class T>
absl::StatusOr<Kernel> MakeMaxPoolGrad(const KernelSpec& spec) {
  const Pool2DShape shape = Geometry(spec, spec.inputs[0], PoolKind::kMax);
  if constexpr (!std::is_same_v<T, double>) {
    if (IsDisjoint(shape)) {
      return Kernel{[shape](const KernelContext& context) {
        DisjointMaxPoolGrad(shape, context.input<uint8_t>(1), context.input<T>(2), context.output<T>(0));
        return absl::OkStatus();
      }};
    }
  }
  if (OneDnnFindsWinners<T>(spec, spec.inputs[1].dtype)) {
    auto primitive = onednn::Pool2DBackward(shape);
    if (!primitive.ok() || primitive->saved_bytes() == spec.inputs[1].bytes()) {
      ASSIGN_OR_RETURN(std::optional<Kernel> kernel, PrimitiveKernel(spec, std::move(primitive), {2, 1}, {0}));
      if (kernel.has_value()) return *std::move(kernel);
    }
  }
  const bool direct = std::is_same_v<T, Compute<T>>;
  const auto bytes = static_cast<size_t>(spec.outputs[0].shape.elements()) * sizeof(Compute<T>);
  const bool small = spec.inputs[1].dtype == DType::kUInt8;
  return Kernel{[shape, small](const KernelContext& context) {
                  T* dx = context.output<T>(0);
                  auto* sums = static_cast<Compute<T>*>(direct ? context.outputs[0] : context.workspace);
                  if (small) {
                    MaxPoolGradLoops(shape, context.input<uint8_t>(1), context.input<T>(2), dx, sums);
                  } else {
                    MaxPoolGradLoops(shape, context.input<int32_t>(1), context.input<T>(2), dx, sums);
                  }
                  return absl::OkStatus();
                },
                direct ? 0 : bytes};
}

template <class T>
absl::StatusOr<Kernel> MakeAvgPool(const KernelSpec& spec) {
  using C = Compute<T>;
  const Pool2DShape p = Geometry(spec, spec.inputs[0], PoolKind::kAverageExcludePadding);
  if (OneDnnComputes(kDTypeOf<T>) && HasElements(spec)) {
    ASSIGN_OR_RETURN(std::optional<Kernel> kernel,
                     PrimitiveKernel(spec, onednn::Pool2DForward(p, /*training=*/true), {0}, {0}));
    if (kernel.has_value()) return *std::move(kernel);
  }
  return Kernel{[p](const KernelContext& context) {
    const T* x = context.input<T>(0);
    T* y = context.output<T>(0);
    ForEachWindow(p, [&](int64_t n, int64_t oh, int64_t ow, int64_t to) {
      alignas(64) C sum[kBlock];
      for (int64_t c = 0; c < p.c; c += kBlock) {
        const int64_t size = std::min(kBlock, p.c - c);
        int64_t count = 0;
        std::fill_n(sum, size, C(0));
        ForEachTap(p, n, oh, ow, [&](int64_t, int64_t from) {
          ++count;
          for (int64_t i = 0; i < size; ++i) sum[i] += static_cast<C>(x[from + c + i]);
        });
        for (int64_t i = 0; i < size; ++i) y[to + c + i] = static_cast<T>(sum[i] / static_cast<C>(count));
      }
    });
    return absl::OkStatus();
  }};
}

// Inputs: x (shape only), dy.
template <class T>
absl::StatusOr<Kernel> MakeAvgPoolGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const Pool2DShape p = Geometry(spec, spec.inputs[0], PoolKind::kAverageExcludePadding);
  // Without AVX-512 the library adds overlapping windows in an order that depends on the number of threads.
  if (OneDnnComputes(kDTypeOf<T>) && HasElements(spec) && onednn::ProductsRepeat(DType::kFloat32)) {
    ASSIGN_OR_RETURN(std::optional<Kernel> kernel, PrimitiveKernel(spec, onednn::Pool2DBackward(p), {1}, {0}));
    if (kernel.has_value()) return *std::move(kernel);
  }
  constexpr bool kDirect = std::is_same_v<T, C>;
  const int64_t elements = spec.outputs[0].shape.elements();
  return Kernel{[p, elements](const KernelContext& context) {
                  const T* dy = context.input<T>(1);
                  auto* sums = static_cast<C*>(kDirect ? context.outputs[0] : context.workspace);
                  std::fill_n(sums, elements, C(0));
                  ForEachWindow(p, [&](int64_t n, int64_t oh, int64_t ow, int64_t from) {
                    int64_t count = 0;
                    ForEachTap(p, n, oh, ow, [&](int64_t, int64_t) { ++count; });
                    const C share = 1 / static_cast<C>(count);
                    ForEachTap(p, n, oh, ow, [&](int64_t, int64_t to) {
                      for (int64_t c = 0; c < p.c; ++c) sums[to + c] += static_cast<C>(dy[from + c]) * share;
                    });
                  });
                  if (!kDirect) Store(sums, elements, context.output<T>(0));
                  return absl::OkStatus();
                },
                kDirect ? 0 : static_cast<size_t>(elements) * sizeof(C)};
}

absl::StatusOr<Shape> OutputShape(const ShapeArgs& args) {
  const Shape& x = args.inputs[0];
  ASSIGN_OR_RETURN(const Window window, PoolWindow(args.attrs, x));
  return Shape({x[0], window.h.out, window.w.out, x[3]});
}

absl::StatusOr<std::vector<Shape>> MaxPoolShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape y, OutputShape(args));
  const std::vector<int64_t>& size = args.attrs.Ints("ksize");
  if (args.attrs.Type("W") != WinnerType(size[1] * size[2])) {
    return absl::InvalidArgumentError(absl::StrCat("W must be ", DTypeName(WinnerType(size[1] * size[2]))));
  }
  return std::vector<Shape>{y, y};
}

absl::StatusOr<std::vector<Shape>> AvgPoolShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape y, OutputShape(args));
  return std::vector<Shape>{y};
}

// Shape rule of the gradients: every input after x has the shape of y.
absl::StatusOr<std::vector<Shape>> PoolGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape y, OutputShape(args));
  for (size_t i = 1; i < args.inputs.size(); ++i) RETURN_IF_ERROR(y.Merge(args.inputs[i]).status());
  return std::vector<Shape>{args.inputs[0]};
}

Attrs PassedAttrs(const Node& node) {
  Attrs attrs;
  for (const AttrDef& def : PoolAttrDefs()) attrs.Set(def.name, *node.attrs().Find(def.name));
  return attrs;
}

Attrs AttrsOf(const PoolOptions& options) {
  Attrs attrs;
  SetWindowAttrs(options.padding, options.stride_h, options.stride_w, attrs);
  attrs.Set("ksize", std::vector<int64_t>{1, options.height, options.width, 1});
  return attrs;
}

}  // namespace

absl::StatusOr<Window> PoolWindow(const Attrs& attrs, const Shape& x) {
  const std::vector<int64_t>& size = attrs.Ints("ksize");
  if (size.size() != 4 || size[0] != 1 || size[3] != 1 || size[1] < 1 || size[2] < 1) {
    return absl::InvalidArgumentError("ksize must be [1, h, w, 1] with positive h and w");
  }
  ASSIGN_OR_RETURN(const Window window, MakeWindow(attrs, x, size[1], size[2]));
  for (const WindowAxis& axis : {window.h, window.w}) {
    if (std::max(axis.pad_low, axis.pad_high) < axis.window) continue;
    return absl::InvalidArgumentError(absl::StrCat("padding must be smaller than the window, which is ", axis.window));
  }
  return window;
}

Output MaxPool(OpScope scope, Output x, const PoolOptions& options) {
  Attrs attrs = AttrsOf(options);
  attrs.Set("W", WinnerType(options.height * options.width));
  return scope.Add("MaxPool", {x}, std::move(attrs));
}

Output AvgPool(OpScope scope, Output x, const PoolOptions& options) {
  return scope.Add("AvgPool", {x}, AttrsOf(options));
}

Output GlobalAvgPool(OpScope scope, Output x, bool keep_dims) { return Mean(scope, x, {1, 2}, keep_dims); }

Output GlobalMaxPool(OpScope scope, Output x, bool keep_dims) {
  if (!x.valid()) return scope.Add("GlobalMaxPool", {x});  // an error
  const Shape& shape = x.shape();
  if (shape.rank() != 4 || shape[1] < 1 || shape[2] < 1) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("GlobalMaxPool needs images [N, H, W, C] of known height and width, but was given ",
                     shape.ToString(), " (", scope.location().ToString(), ")")));
    return Output();
  }
  const Output y = MaxPool(scope, x, {.height = shape[1], .width = shape[2], .padding = Padding::Valid()});
  return keep_dims ? y : Squeeze(scope, y, {1, 2});
}

namespace {

// Pooling hardly multiplies, so it stays in bfloat16 even where bfloat16 products are slow.
bool ComputesBFloat16(const KernelSpec&) { return onednn::HasBFloat16(); }

// dx is linear in dy, whose gradient is that of dx at the winners.
std::vector<Output> MaxPoolSecondGradient(const Scope& scope, const Node& node, absl::Span<const Output> ddx) {
  const Output winners = Cast(scope, node.input(1), DType::kInt64);
  const absl::StatusOr<Window> window = PoolWindow(node.attrs(), node.input(0).shape());
  if (node.attrs().String("padding") == "SAME" &&
      (window->h.out == Shape::kUnknown || window->w.out == Shape::kUnknown)) {
    return NoGradient("the second derivative needs a known height and width for SAME padding")(scope, node, ddx);
  }
  const auto position = [&](int axis) { return Cumsum(scope, OnesLike(scope, winners), axis, {.exclusive = true}); };
  const auto inside = [&](const WindowAxis& axis, int at, Output tap) {
    return Add(scope, Sub(scope, Mul(scope, position(at), axis.stride), axis.pad_low), tap);
  };
  const Output row = inside(window->h, 1, FloorDiv(scope, winners, window->w.window));
  const Output column = inside(window->w, 2, FloorMod(scope, winners, window->w.window));
  return {Output(), Output(), GatherND(scope, ddx[0], Stack(scope, {position(0), row, column, position(3)}, -1))};
}

}  // namespace

void RegisterPool(OpRegistry& registry) {
  registry.Add(WithHalfPrecision(
      {.name = "MaxPool",
       .inputs = {{"x"}},
       .outputs = {{"y"}, {.name = "winners", .type = "W"}},
       .types = {{"T", kFloatTypes}, {"W", kWinnerTypes}},
       .attrs = PoolAttrDefs(),
       .shape = MaxPoolShape,
       .gradient = [](const Scope& scope, const Node& node, absl::Span<const Output> dy) -> std::vector<Output> {
         return {scope.Add("MaxPoolGrad", {node.input(0), node.output(1), dy[0]}, PassedAttrs(node))};
       },
       .kernels = Kernels<float, double, BFloat16>(
           "CPU", [](auto tag) { return &MakeMaxPool<typename decltype(tag)::type>; })},
      ComputesBFloat16));
  registry.Add(WithHalfPrecision(
      {.name = "AvgPool",
       .inputs = {{"x"}},
       .outputs = {{"y"}},
       .types = {{"T", kFloatTypes}},
       .attrs = PoolAttrDefs(),
       .shape = AvgPoolShape,
       .gradient = [](const Scope& scope, const Node& node, absl::Span<const Output> dy) -> std::vector<Output> {
         return {scope.Add("AvgPoolGrad", {node.input(0), dy[0]}, PassedAttrs(node))};
       },
       .kernels = Kernels<float, double, BFloat16>(
           "CPU", [](auto tag) { return &MakeAvgPool<typename decltype(tag)::type>; })},
      ComputesBFloat16));
}

void RegisterPoolGradients(OpRegistry& registry) {
  registry.Add(
      WithHalfPrecision({.name = "MaxPoolGrad",
                         .inputs = {{.name = "x", .shape_only = true}, {.name = "winners", .type = "W"}, {"dy"}},
                         .outputs = {{"dx"}},
                         .types = {{"T", kFloatTypes}, {"W", kWinnerTypes}},
                         .attrs = PoolAttrDefs(),
                         .shape = PoolGradShape,
                         .gradient = MaxPoolSecondGradient,
                         .kernels = Kernels<float, double, BFloat16>(
                             "CPU", [](auto tag) { return &MakeMaxPoolGrad<typename decltype(tag)::type>; })},
                        ComputesBFloat16));
  registry.Add(WithHalfPrecision(
      {.name = "AvgPoolGrad",
       .inputs = {{.name = "x", .shape_only = true}, {"dy"}},
       .outputs = {{"dx"}},
       .types = {{"T", kFloatTypes}},
       .attrs = PoolAttrDefs(),
       .shape = PoolGradShape,
       .gradient = [](const Scope& scope, const Node& node, absl::Span<const Output> ddx) -> std::vector<Output> {
         return {Output(), scope.Add("AvgPool", {ddx[0]}, PassedAttrs(node))};
       },
       .kernels = Kernels<float, double, BFloat16>(
           "CPU", [](auto tag) { return &MakeAvgPoolGrad<typename decltype(tag)::type>; })},
      ComputesBFloat16));
}

}  // namespace belfry::ops
