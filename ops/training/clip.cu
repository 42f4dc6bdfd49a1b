#include <vector>

#include "ops/training/norm_gpu_impl.h"
#include "ops/training/training_ops.h"

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

}  // namespace

void AddClipGpuKernels(KernelTable& table) {
  table.AddKernels("GlobalNorm", Kernels<float, double, Half, BFloat16>(
                                     "GPU", [](auto tag) { return &MakeGlobalNorm<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
