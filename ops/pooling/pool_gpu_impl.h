// Our GPU kernels of pooling. For .cu files.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "absl/status/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/kernel.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/packs_gpu_impl.h"
#include "ops/pooling/pool_impl.h"

namespace belfry::ops {

// A range of positions along one axis.
struct PoolRange {
  int begin, end;
};
struct PoolAxis {
  int in, out, window, pad;
  Divider stride;

  explicit PoolAxis(const WindowAxis& axis)
      : in(static_cast<int>(axis.in)),
        out(static_cast<int>(axis.out)),
        window(static_cast<int>(axis.window)),
        pad(static_cast<int>(axis.pad_low)),
        stride(axis.stride, int64_t{1} << 31) {}

  // The start of window o, which may lie in the padding.
  constexpr int Start(int o) const { return o * static_cast<int>(stride.divisor()) - pad; }
  // The positions of the image in window o.
  constexpr PoolRange Elements(int o) const {
    const int start = Start(o), end = start + window;
    return {start < 0 ? 0 : start, end > in ? in : end};
  }
  // The windows that contain position i.
  constexpr PoolRange Windows(int i) const {
    const int before = i + pad - window, last = static_cast<int>(stride.Quotient(i + pad)) + 1;
    return {before < 0 ? 0 : static_cast<int>(stride.Quotient(before)) + 1, last > out ? out : last};
  }
};

struct PixelIndex {
  int64_t n;
  int h, w, c;
};

// Images of packs of channels, or of single ones.
struct PoolGeometry {
  PoolAxis h, w;
  int64_t inputs, outputs;  // number of packs of x and of y
  Divider channels, in_h, in_w, out_h, out_w;

  PoolGeometry(const Window& window, const Shape& x, int64_t packs)
      : h(window.h),
        w(window.w),
        inputs(x.elements(0, 3) * packs),
        outputs(x[0] * window.h.out * window.w.out * packs) {
    if (inputs == 0 || outputs == 0) return;
    const int64_t limit = inputs > outputs ? inputs : outputs;
    channels = Divider(packs, limit);
    in_h = Divider(x[1], limit);
    in_w = Divider(x[2], limit);
    out_h = Divider(window.h.out, limit);
    out_w = Divider(window.w.out, limit);
  }

  BELFRY_GPU PixelIndex Find(int64_t i, const Divider& height, const Divider& width) const {
    PixelIndex at{};
    at.c = static_cast<int>(channels.Split(i));
    at.w = static_cast<int>(width.Split(i));
    at.h = static_cast<int>(height.Split(i));
    at.n = i;
    return at;
  }
  BELFRY_GPU PixelIndex OfInput(int64_t i) const { return Find(i, in_h, in_w); }
  BELFRY_GPU PixelIndex OfOutput(int64_t i) const { return Find(i, out_h, out_w); }
  // Offsets in x and y, in packs, of row a, column b in the image and pack of channels of `at`.
  BELFRY_GPU int64_t Input(const PixelIndex& at, int a, int b) const {
    return ((at.n * h.in + a) * w.in + b) * channels.divisor() + at.c;
  }
  BELFRY_GPU int64_t Output(const PixelIndex& at, int a, int b) const {
    return ((at.n * h.out + a) * w.out + b) * channels.divisor() + at.c;
  }
};

struct PoolGeometries {
  PoolGeometry single, packed;
  int64_t channels;

  PoolGeometries(const Window& window, const Shape& x, int lanes)
      : single(window, x, x[3]), packed(window, x, x[3] / lanes), channels(x[3]) {}
  template <int lanes>
  const PoolGeometry& Of() const {
    return lanes == 1 ? single : packed;
  }
};

// WithLanes for operands at `addresses`. Winners of 4 bytes are taken one by one.
template <class T, class Winner, class Run>
absl::Status WithPoolLanes(const PoolGeometries& g, std::initializer_list<const void*> addresses, const Run& run) {
  if constexpr (sizeof(Winner) > 1) return run(std::integral_constant<int, 1>());
  return WithLanes<T>(AreWholePacks<T>(g.channels) && AreAligned(addresses), run);
}

template <class T, int lanes>
BELFRY_GPU void StoreSums(const gpu::Compute<T> (&sum)[lanes], gpu::Stored<T>* to) {
  PackOf<T, lanes> pack;
  for (int j = 0; j < lanes; ++j) pack.at[j] = gpu::Narrow<T>(sum[j]);
  StorePack<T, lanes>(to, pack);
}

// Maximum of each window. Ties go to the first element; any number beats NaN.
template <class T, class Winner, int lanes>
absl::Status MaximumOf(const PoolGeometry& g, const KernelContext& context) {
  using C = gpu::Compute<T>;
  const auto* const x = context.input<gpu::Stored<T>>(0);
  auto* const y = context.output<gpu::Stored<T>>(0);
  auto* const winners = context.output<Winner>(1);
  return gpu::ForEach(*context.stream, g.outputs, [=] BELFRY_GPU(int64_t i) {
    const PixelIndex at = g.OfOutput(i);
    const PoolRange rows = g.h.Elements(at.h), columns = g.w.Elements(at.w);
    const int start = g.h.Start(at.h) * g.w.window + g.w.Start(at.w);
    PackOf<T, lanes> top = PackAt<T, lanes>(x + g.Input(at, rows.begin, columns.begin) * lanes);
    int taps[lanes];
    for (int j = 0; j < lanes; ++j) taps[j] = rows.begin * g.w.window + columns.begin - start;
    for (int a = rows.begin; a < rows.end; ++a) {
      const gpu::Stored<T>* from = x + g.Input(at, a, columns.begin) * lanes;
      for (int b = columns.begin; b < columns.end; ++b, from += g.channels.divisor() * lanes) {
        const PackOf<T, lanes> pack = PackAt<T, lanes>(from);
        const int tap = a * g.w.window + b - start;
        BELFRY_UNROLL
        for (int j = 0; j < lanes; ++j) {
          const C here = gpu::Widen(pack.at[j]), best = gpu::Widen(top.at[j]);
          const bool better = here > best || (best != best && here == here);
          top.at[j] = better ? pack.at[j] : top.at[j];
          taps[j] = better ? tap : taps[j];
        }
      }
    }
    StorePack<T, lanes>(y + i * lanes, top);
    GpuPack<Winner, lanes> out;
    for (int j = 0; j < lanes; ++j) out.at[j] = static_cast<Winner>(taps[j]);
    *reinterpret_cast<GpuPack<Winner, lanes>*>(winners + i * lanes) = out;
  });
}
template <class T, class Winner>
absl::Status Maximum(const PoolGeometries& g, const KernelContext& context) {
  return WithPoolLanes<T, Winner>(g, {context.inputs[0], context.outputs[0], context.outputs[1]}, [&](auto lanes) {
    constexpr int kLanes = decltype(lanes)::value;
    return MaximumOf<T, Winner, kLanes>(g.Of<kLanes>(), context);
  });
}

// Inputs: x (shape only), winners, dy. Each element of x sums the windows that contain it in ascending order, so no
// atomics are needed.
template <class T, class Winner, int lanes>
absl::Status MaximumGradientOf(const PoolGeometry& g, const KernelContext& context) {
  using C = gpu::Compute<T>;
  const auto* const winners = context.input<Winner>(1);
  const auto* const dy = context.input<gpu::Stored<T>>(2);
  auto* const dx = context.output<gpu::Stored<T>>(0);
  return gpu::ForEach(*context.stream, g.inputs, [=] BELFRY_GPU(int64_t i) {
    const PixelIndex at = g.OfInput(i);
    const PoolRange rows = g.h.Windows(at.h), columns = g.w.Windows(at.w);
    C sum[lanes] = {};
    for (int a = rows.begin; a < rows.end; ++a) {
      for (int b = columns.begin; b < columns.end; ++b) {
        const int64_t from = g.Output(at, a, b) * lanes;
        const int tap = (at.h - g.h.Start(a)) * g.w.window + at.w - g.w.Start(b);
        const auto winner = *reinterpret_cast<const GpuPack<Winner, lanes>*>(winners + from);
        const PackOf<T, lanes> slope = PackAt<T, lanes>(dy + from);
        BELFRY_UNROLL
        for (int j = 0; j < lanes; ++j) {
          if (static_cast<int>(winner.at[j]) == tap) sum[j] += gpu::Widen(slope.at[j]);
        }
      }
    }
    StoreSums<T, lanes>(sum, dx + i * lanes);
  });
}
template <class T, class Winner>
absl::Status MaximumGradient(const PoolGeometries& g, const KernelContext& context) {
  return WithPoolLanes<T, Winner>(g, {context.inputs[1], context.inputs[2], context.outputs[0]}, [&](auto lanes) {
    constexpr int kLanes = decltype(lanes)::value;
    return MaximumGradientOf<T, Winner, kLanes>(g.Of<kLanes>(), context);
  });
}

template <class T, int lanes>
absl::Status AverageOf(const PoolGeometry& g, const KernelContext& context) {
  using C = gpu::Compute<T>;
  const auto* const x = context.input<gpu::Stored<T>>(0);
  auto* const y = context.output<gpu::Stored<T>>(0);
  return gpu::ForEach(*context.stream, g.outputs, [=] BELFRY_GPU(int64_t i) {
    const PixelIndex at = g.OfOutput(i);
    const PoolRange rows = g.h.Elements(at.h), columns = g.w.Elements(at.w);
    C sum[lanes] = {};
    for (int a = rows.begin; a < rows.end; ++a) {
      const gpu::Stored<T>* from = x + g.Input(at, a, columns.begin) * lanes;
      for (int b = columns.begin; b < columns.end; ++b, from += g.channels.divisor() * lanes) {
        const PackOf<T, lanes> pack = PackAt<T, lanes>(from);
        BELFRY_UNROLL
        for (int j = 0; j < lanes; ++j) sum[j] += gpu::Widen(pack.at[j]);
      }
    }
    const auto count = static_cast<C>(int64_t{rows.end - rows.begin} * (columns.end - columns.begin));
    for (int j = 0; j < lanes; ++j) sum[j] /= count;
    StoreSums<T, lanes>(sum, y + i * lanes);
  });
}
template <class T>
absl::Status Average(const PoolGeometries& g, const KernelContext& context) {
  return WithPoolLanes<T, uint8_t>(g, {context.inputs[0], context.outputs[0]}, [&](auto lanes) {
    constexpr int kLanes = decltype(lanes)::value;
    return AverageOf<T, kLanes>(g.Of<kLanes>(), context);
  });
}

// Inputs: x (shape only), dy.
template <class T, int lanes>
absl::Status AverageGradientOf(const PoolGeometry& g, const KernelContext& context) {
  using C = gpu::Compute<T>;
  const auto* const dy = context.input<gpu::Stored<T>>(1);
  auto* const dx = context.output<gpu::Stored<T>>(0);
  return gpu::ForEach(*context.stream, g.inputs, [=] BELFRY_GPU(int64_t i) {
    const PixelIndex at = g.OfInput(i);
    const PoolRange rows = g.h.Windows(at.h), columns = g.w.Windows(at.w);
    C sum[lanes] = {};
    for (int a = rows.begin; a < rows.end; ++a) {
      const PoolRange high = g.h.Elements(a);
      for (int b = columns.begin; b < columns.end; ++b) {
        const PoolRange wide = g.w.Elements(b);
        const int64_t count = int64_t{high.end - high.begin} * (wide.end - wide.begin);
        const C share = 1 / static_cast<C>(count);
        const PackOf<T, lanes> slope = PackAt<T, lanes>(dy + g.Output(at, a, b) * lanes);
        BELFRY_UNROLL
        for (int j = 0; j < lanes; ++j) sum[j] += gpu::Widen(slope.at[j]) * share;
      }
    }
    StoreSums<T, lanes>(sum, dx + i * lanes);
  });
}
template <class T>
absl::Status AverageGradient(const PoolGeometries& g, const KernelContext& context) {
  return WithPoolLanes<T, uint8_t>(g, {context.inputs[1], context.outputs[0]}, [&](auto lanes) {
    constexpr int kLanes = decltype(lanes)::value;
    return AverageGradientOf<T, kLanes>(g.Of<kLanes>(), context);
  });
}

}  // namespace belfry::ops
