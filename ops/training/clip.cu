#include <cmath>
#include <vector>

#include "ops/training/norm_gpu_impl.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {
namespace {

absl::Status FindNorm(Stream& stream, int64_t chunks, const double* partial, float* norm) {
  return gpu::ForEachRow(stream, 1, chunks, [=] BELFRY_GPU(int64_t, const gpu::Team& team) {
    const double sum = SumOf(partial, chunks, team);
    if (team.rank == 0) *norm = static_cast<float>(std::sqrt(sum));
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
  kernel.run = [sizes, chunks](const KernelContext& at) {
    auto* const partial = static_cast<double*>(at.workspace);
    RETURN_IF_ERROR(GpuChunkSumsOfInputs<T>(at, sizes, partial, SquareOf()));
    return FindNorm(*at.stream, chunks, partial, at.output<float>(0));
  };
  return kernel;
}

template <class T>
absl::Status Multiply(Stream& stream, int64_t n, double clip, const gpu::Stored<T>* x, const float* norm,
                      gpu::Stored<T>* y) {
  using C = gpu::Compute<T>;
  const int64_t threads = UpdateThreads(n, /*costly=*/true);
  return gpu::ForEach(stream, threads, [=] BELFRY_GPU(int64_t first) {
    const C factor = static_cast<C>(ClipFactor(static_cast<double>(*norm), clip));
    for (int64_t i = first; i < n; i += threads) y[i] = gpu::Narrow<T>(factor * gpu::Widen(x[i]));
  });
}

template <class T>
absl::StatusOr<Kernel> MakeClipToNorm(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  return Kernel{[n = spec.outputs[0].shape.elements(), clip = spec.attrs.Float("clip_norm")](const KernelContext& at) {
    return Multiply<T>(*at.stream, n, clip, at.input<S>(0), at.input<float>(1), at.output<S>(0));
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
