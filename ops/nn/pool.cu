#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/families.h"
#include "ops/nn/pool_impl.h"

namespace belfry::ops {
namespace {

// Places of one axis.
struct Range {
  int begin, end;
};
struct Axis {
  int in, out, window, pad;
  Divider stride;

  explicit Axis(const WindowAxis& axis)
      : in(static_cast<int>(axis.in)),
        out(static_cast<int>(axis.out)),
        window(static_cast<int>(axis.window)),
        pad(static_cast<int>(axis.pad_low)),
        stride(axis.stride, int64_t{1} << 31) {}

  // Where window o begins; may be in the padding.
  constexpr int Start(int o) const { return o * static_cast<int>(stride.divisor()) - pad; }
  // The places of the image in window o.
  constexpr Range Elements(int o) const {
    const int start = Start(o), end = start + window;
    return {start < 0 ? 0 : start, end > in ? in : end};
  }
  // The windows that hold place i.
  constexpr Range Windows(int i) const {
    const int before = i + pad - window, last = static_cast<int>(stride.Quotient(i + pad)) + 1;
    return {before < 0 ? 0 : static_cast<int>(stride.Quotient(before)) + 1, last > out ? out : last};
  }
};

struct Place {
  int64_t n;
  int h, w, c;
};

struct PoolGeometry {
  Axis h, w;
  int64_t inputs, outputs;  // elements of x and of y
  Divider channels, in_h, in_w, out_h, out_w;

  PoolGeometry(const Window& window, const Shape& x)
      : h(window.h), w(window.w), inputs(x.elements()), outputs(x[0] * window.h.out * window.w.out * x[3]) {
    if (inputs == 0 || outputs == 0) return;
    const int64_t limit = inputs > outputs ? inputs : outputs;
    channels = Divider(x[3], limit);
    in_h = Divider(x[1], limit);
    in_w = Divider(x[2], limit);
    out_h = Divider(window.h.out, limit);
    out_w = Divider(window.w.out, limit);
  }

  BELFRY_GPU Place Find(int64_t i, const Divider& height, const Divider& width) const {
    Place at{};
    at.c = static_cast<int>(channels.Split(i));
    at.w = static_cast<int>(width.Split(i));
    at.h = static_cast<int>(height.Split(i));
    at.n = i;
    return at;
  }
  BELFRY_GPU Place OfInput(int64_t i) const { return Find(i, in_h, in_w); }
  BELFRY_GPU Place OfOutput(int64_t i) const { return Find(i, out_h, out_w); }
  // The element of x, or of y, at row and column (a, b) of the image and channel of `at`.
  BELFRY_GPU int64_t Input(const Place& at, int a, int b) const {
    return ((at.n * h.in + a) * w.in + b) * channels.divisor() + at.c;
  }
  BELFRY_GPU int64_t Output(const Place& at, int a, int b) const {
    return ((at.n * h.out + a) * w.out + b) * channels.divisor() + at.c;
  }
};

absl::StatusOr<PoolGeometry> MakeGeometry(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const Window window, PoolWindow(spec.attrs, x));
  constexpr int64_t kLargest = int64_t{1} << 30;  // so that no sum of two overflows
  for (const WindowAxis& axis : {window.h, window.w}) {
    if (std::max({axis.in + axis.pad_low + axis.pad_high, axis.window, axis.stride}) <= kLargest) continue;
    return absl::UnimplementedError(absl::StrCat("the padded image, the window and its stride may be up to ", kLargest,
                                                 " on a GPU, and one is larger"));
  }
  const PoolGeometry geometry(window, x);
  if (geometry.inputs == 0 && geometry.outputs > 0) {
    return absl::InvalidArgumentError(absl::StrCat("the images have no elements: ", x.ToString()));
  }
  return geometry;
}

// Of the window's first element, unless another is larger, or a number where there was none.
template <class T, class Winner>
absl::Status Maximum(const PoolGeometry& g, const KernelContext& context) {
  using C = gpu::Compute<T>;
  const auto* const x = context.input<gpu::Stored<T>>(0);
  auto* const y = context.output<gpu::Stored<T>>(0);
  auto* const winners = context.output<Winner>(1);
  return gpu::ForEach(*context.stream, g.outputs, [=] BELFRY_GPU(int64_t i) {
    const Place at = g.OfOutput(i);
    const Range rows = g.h.Elements(at.h), columns = g.w.Elements(at.w);
    int best_row = rows.begin, best_column = columns.begin;
    C best = gpu::Widen(x[g.Input(at, best_row, best_column)]);
    for (int a = rows.begin; a < rows.end; ++a) {
      const gpu::Stored<T>* from = x + g.Input(at, a, columns.begin);
      for (int b = columns.begin; b < columns.end; ++b, from += g.channels.divisor()) {
        const C here = gpu::Widen(*from);
        if (here > best || (best != best && here == here)) {
          best = here;
          best_row = a;
          best_column = b;
        }
      }
    }
    y[i] = gpu::Narrow<T>(best);
    winners[i] = static_cast<Winner>((best_row - g.h.Start(at.h)) * g.w.window + best_column - g.w.Start(at.w));
  });
}

// Inputs x (its shape), winners, dy. Each element of x looks at the windows that hold it, in ascending order.
template <class T, class Winner>
absl::Status MaximumGradient(const PoolGeometry& g, const KernelContext& context) {
  using C = gpu::Compute<T>;
  const auto* const winners = context.input<Winner>(1);
  const auto* const dy = context.input<gpu::Stored<T>>(2);
  auto* const dx = context.output<gpu::Stored<T>>(0);
  return gpu::ForEach(*context.stream, g.inputs, [=] BELFRY_GPU(int64_t i) {
    const Place at = g.OfInput(i);
    const Range rows = g.h.Windows(at.h), columns = g.w.Windows(at.w);
    C sum = 0;
    for (int a = rows.begin; a < rows.end; ++a) {
      for (int b = columns.begin; b < columns.end; ++b) {
        const int64_t from = g.Output(at, a, b);
        const int tap = (at.h - g.h.Start(a)) * g.w.window + at.w - g.w.Start(b);
        if (static_cast<int>(winners[from]) == tap) sum += gpu::Widen(dy[from]);
      }
    }
    dx[i] = gpu::Narrow<T>(sum);
  });
}

template <class T>
absl::Status Average(const PoolGeometry& g, const KernelContext& context) {
  using C = gpu::Compute<T>;
  const auto* const x = context.input<gpu::Stored<T>>(0);
  auto* const y = context.output<gpu::Stored<T>>(0);
  return gpu::ForEach(*context.stream, g.outputs, [=] BELFRY_GPU(int64_t i) {
    const Place at = g.OfOutput(i);
    const Range rows = g.h.Elements(at.h), columns = g.w.Elements(at.w);
    C sum = 0;
    for (int a = rows.begin; a < rows.end; ++a) {
      const gpu::Stored<T>* from = x + g.Input(at, a, columns.begin);
      for (int b = columns.begin; b < columns.end; ++b, from += g.channels.divisor()) sum += gpu::Widen(*from);
    }
    const int64_t count = int64_t{rows.end - rows.begin} * (columns.end - columns.begin);
    y[i] = gpu::Narrow<T>(sum / static_cast<C>(count));
  });
}

// Inputs x (its shape), dy.
template <class T>
absl::Status AverageGradient(const PoolGeometry& g, const KernelContext& context) {
  using C = gpu::Compute<T>;
  const auto* const dy = context.input<gpu::Stored<T>>(1);
  auto* const dx = context.output<gpu::Stored<T>>(0);
  return gpu::ForEach(*context.stream, g.inputs, [=] BELFRY_GPU(int64_t i) {
    const Place at = g.OfInput(i);
    const Range rows = g.h.Windows(at.h), columns = g.w.Windows(at.w);
    C sum = 0;
    for (int a = rows.begin; a < rows.end; ++a) {
      const Range high = g.h.Elements(a);
      for (int b = columns.begin; b < columns.end; ++b) {
        const Range wide = g.w.Elements(b);
        const int64_t count = int64_t{high.end - high.begin} * (wide.end - wide.begin);
        sum += gpu::Widen(dy[g.Output(at, a, b)]) * (1 / static_cast<C>(count));
      }
    }
    dx[i] = gpu::Narrow<T>(sum);
  });
}

using PoolRun = absl::Status (*)(const PoolGeometry&, const KernelContext&);

// `choose`(TypeTag, spec) is the run for a dtype.
template <class Choose>
void Add(OpRegistry& registry, absl::string_view op, const Choose& choose) {
  registry.AddKernels(
      op, Kernels<float, double, Half, BFloat16>("GPU", [&](auto tag) -> KernelFactory {
        return [choose, tag](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
          ASSIGN_OR_RETURN(const PoolGeometry geometry, MakeGeometry(spec));
          const PoolRun run = choose(tag, spec);
          return Kernel{[geometry = geometry, run](const KernelContext& context) { return run(geometry, context); }};
        };
      }));
}

}  // namespace

void AddPoolGpuKernels(OpRegistry& registry) {
  Add(registry, "MaxPool", [](auto tag, const KernelSpec& spec) -> PoolRun {
    using T = typename decltype(tag)::type;
    return spec.outputs[1].dtype == DType::kUInt8 ? &Maximum<T, uint8_t> : &Maximum<T, int32_t>;
  });
  Add(registry, "MaxPoolGrad", [](auto tag, const KernelSpec& spec) -> PoolRun {
    using T = typename decltype(tag)::type;
    return spec.inputs[1].dtype == DType::kUInt8 ? &MaximumGradient<T, uint8_t> : &MaximumGradient<T, int32_t>;
  });
  Add(registry, "AvgPool",
      [](auto tag, const KernelSpec&) -> PoolRun { return &Average<typename decltype(tag)::type>; });
  Add(registry, "AvgPoolGrad",
      [](auto tag, const KernelSpec&) -> PoolRun { return &AverageGradient<typename decltype(tag)::type>; });
}

}  // namespace belfry::ops
