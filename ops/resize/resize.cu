#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "ops/gpu/divider_impl.h"
#include "ops/resize/resize_impl.h"
#include "ops/resize/resize_ops.h"

namespace belfry::ops {
namespace {

// Finds the coordinates of an element of images [.., h, w, c].
struct PixelFinder {
  Divider h, w, c;
  PixelFinder(int64_t height, int64_t width, int64_t channels, int64_t elements)
      : h(height, elements), w(width, elements), c(channels, elements) {}
  struct Position {
    int64_t n, h, w, c;
  };
  BELFRY_GPU Position Find(int64_t i) const {
    Position at{};
    at.c = c.Split(i);
    at.w = w.Split(i);
    at.h = h.Split(i);
    at.n = i;
    return at;
  }
};

template <class T>
absl::Status Resize(Stream& stream, const ResizeLayout& p, const gpu::Stored<T>* x, gpu::Stored<T>* y) {
  using C = gpu::Compute<T>;
  const int64_t elements = p.n * p.h.out * p.w.out * p.c;
  const PixelFinder finder(p.h.out, p.w.out, p.c, elements);
  return gpu::ForEach(stream, elements, [=] BELFRY_GPU(int64_t i) {
    const auto at = finder.Find(i);
    const auto h = p.h.TapsOf<C>(at.h), w = p.w.TapsOf<C>(at.w);
    const auto* const image = x + at.n * p.h.in * p.w.in * p.c + at.c;
    C sum = 0;
    for (int64_t row = h.low; row <= h.high; ++row) {
      for (int64_t column = w.low; column <= w.high; ++column) {
        const C weight = h.WeightOf(row) * w.WeightOf(column);
        if (weight != C(0)) sum += weight * gpu::Widen(image[(row * p.w.in + column) * p.c]);
      }
    }
    y[i] = gpu::Narrow<T>(sum);
  });
}

template <class T>
absl::Status ResizeBack(Stream& stream, const ResizeLayout& p, const gpu::Stored<T>* dy, gpu::Stored<T>* dx) {
  using C = gpu::Compute<T>;
  const int64_t elements = p.n * p.h.in * p.w.in * p.c;
  const PixelFinder finder(p.h.in, p.w.in, p.c, elements);
  return gpu::ForEach(stream, elements, [=] BELFRY_GPU(int64_t i) {
    const auto at = finder.Find(i);
    const auto* const image = dy + at.n * p.h.out * p.w.out * p.c + at.c;
    const int64_t end_h = p.h.End(at.h), begin_w = p.w.Begin(at.w), end_w = p.w.End(at.w);
    C sum = 0;
    for (int64_t row = p.h.Begin(at.h); row < end_h; ++row) {
      const C in_row = p.h.TapsOf<C>(row).WeightOf(at.h);
      for (int64_t column = begin_w; in_row != C(0) && column < end_w; ++column) {
        const C weight = in_row * p.w.TapsOf<C>(column).WeightOf(at.w);
        if (weight != C(0)) sum += weight * gpu::Widen(image[(row * p.w.out + column) * p.c]);
      }
    }
    dx[i] = gpu::Narrow<T>(sum);
  });
}

template <class T>
absl::StatusOr<Kernel> MakeResize(const KernelSpec& spec) {
  const ResizeLayout layout(spec.attrs, spec.inputs[0].shape, spec.outputs[0].shape);
  return Kernel{[layout](const KernelContext& context) {
    return Resize<T>(*context.stream, layout, context.input<gpu::Stored<T>>(0), context.output<gpu::Stored<T>>(0));
  }};
}

template <class T>
absl::StatusOr<Kernel> MakeResizeGrad(const KernelSpec& spec) {
  const ResizeLayout layout(spec.attrs, spec.outputs[0].shape, spec.inputs[0].shape);
  return Kernel{[layout](const KernelContext& context) {
    return ResizeBack<T>(*context.stream, layout, context.input<gpu::Stored<T>>(0), context.output<gpu::Stored<T>>(0));
  }};
}

}  // namespace

void AddResizeGpuKernels(KernelTable& table) {
  table.AddKernels("Resize", Kernels<float, double, Half, BFloat16>(
                                 "GPU", [](auto tag) { return &MakeResize<typename decltype(tag)::type>; }));
  table.AddKernels("ResizeGrad", Kernels<float, double, Half, BFloat16>(
                                     "GPU", [](auto tag) { return &MakeResizeGrad<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
