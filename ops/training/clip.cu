#include <vector>

#include "ops/training/norm_gpu_impl.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {
namespace {

template <class N>
absl::Status FindNorm(Stream& stream, int64_t chunks, const double* partial, N* norm) {
  return gpu::ForEachRow(stream, 1, chunks, [=] BELFRY_GPU(int64_t, const gpu::Team& team) {
    const double whole = NormOfTeam(chunks, team, [=](int64_t i) { return partial[i]; });
    if (team.rank == 0) *norm = static_cast<N>(whole);
  });
}

template <class T>
absl::StatusOr<Kernel> MakeGlobalNorm(const KernelSpec& spec) {
  std::vector<int64_t> sizes;
  int64_t chunks = 0;
  for (const TensorSpec& input : spec.inputs) {
    sizes.push_back(input.shape.elements());
    chunks += GpuNormChunks(sizes.back());
  }
  Kernel kernel;
  kernel.workspace_bytes = sizeof(double) * static_cast<size_t>(chunks);
  kernel.run = [sizes, chunks, wide = spec.outputs[0].dtype == DType::kFloat64](const KernelContext& at) {
    auto* const partial = static_cast<double*>(at.workspace);
    RETURN_IF_ERROR(ForNormInputs<T>(at, sizes, partial, [&](const NormTensors<T>& tensors, double* norms) {
      return GpuChunkNorms(*at.stream, tensors, norms);
    }));
    return wide ? FindNorm(*at.stream, chunks, partial, at.output<double>(0))
                : FindNorm(*at.stream, chunks, partial, at.output<float>(0));
  };
  return kernel;
}

template <class T, class N>
absl::Status Multiply(Stream& stream, int64_t n, double clip, const gpu::Stored<T>* x, const N* norm,
                      gpu::Stored<T>* y) {
  using C = gpu::Compute<T>;
  const int64_t threads = UpdateThreads(n, /*costly=*/true);
  return gpu::ForEach(stream, threads, [=] BELFRY_GPU(int64_t first) {
    const ClipRule<C> rule(static_cast<double>(*norm), clip);
    for (int64_t i = first; i < n; i += threads) y[i] = gpu::Narrow<T>(rule(static_cast<C>(gpu::Widen(x[i]))));
  });
}

template <class T>
absl::StatusOr<Kernel> MakeClipToNorm(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  return Kernel{[n = spec.outputs[0].shape.elements(), clip = spec.attrs.Float("clip_norm"),
                 wide = spec.inputs[1].dtype == DType::kFloat64](const KernelContext& at) {
    return wide ? Multiply<T>(*at.stream, n, clip, at.input<S>(0), at.input<double>(1), at.output<S>(0))
                : Multiply<T>(*at.stream, n, clip, at.input<S>(0), at.input<float>(1), at.output<S>(0));
  }};
}

}  // namespace

void AddClipGpuKernels(KernelTable& table) {
  table.AddKernels("GlobalNorm", Kernels<float, double, Half, BFloat16>(
                                     "GPU", [](auto tag) { return &MakeGlobalNorm<typename decltype(tag)::type>; }));
  table.AddKernels("ClipToNorm", Kernels<float, double, Half, BFloat16>(
                                     "GPU", [](auto tag) { return &MakeClipToNorm<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
