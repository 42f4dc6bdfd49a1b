#include "ops/activation/functors.h"
#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/losses/losses_ops.h"

namespace belfry::ops {
namespace {

template <class T>
absl::Status SigmoidCrossEntropyGradient(Stream& stream, int64_t n, const gpu::Stored<T>* dy, const gpu::Stored<T>* x,
                                         const gpu::Stored<T>* t, gpu::Stored<T>* dx) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    const functor::SigmoidCrossEntropyGrad<gpu::Compute<T>> f;
    dx[i] = gpu::Narrow<T>(f(gpu::Widen(dy[i]), gpu::Widen(x[i]), gpu::Widen(t[i])));
  });
}

template <class T>
absl::StatusOr<Kernel> MakeSigmoidCrossEntropyGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  return Kernel{[n = spec.outputs[0].shape.elements()](const KernelContext& at) {
    return SigmoidCrossEntropyGradient<T>(*at.stream, n, at.input<S>(0), at.input<S>(1), at.input<S>(2),
                                          at.output<S>(0));
  }};
}

}  // namespace

void AddSigmoidCrossEntropyGpuKernels(KernelTable& table) {
  AddFloatGpuZips<functor::SigmoidCrossEntropy>(table, "SigmoidCrossEntropyWithLogits");
  table.AddKernels("SigmoidCrossEntropyGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeSigmoidCrossEntropyGrad<typename decltype(tag)::type>;
                   }));
}

}  // namespace belfry::ops
