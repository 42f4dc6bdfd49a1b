#include <vector>

#include "ops/losses/losses_ops.h"
#include "ops/training/norm_gpu_impl.h"

namespace belfry::ops {
namespace {

template <class T>
struct WeightedTensors {
  NormTensors<T> tensors;
  double factor[NormTensors<T>::kMax];
};

// partial[chunk] = the chunk's share of the sum.
template <class T>
absl::Status SumChunks(Stream& stream, const WeightedTensors<T>& weighted, double* partial) {
  static_assert(sizeof(weighted) <= 4000);
  return gpu::ForEachRow(stream, weighted.tensors.parts.chunks(), kGpuNormChunk,
                         [=] BELFRY_GPU(int64_t chunk, const gpu::Team& team) {
                           const auto part = weighted.tensors.parts.Find(chunk);
                           const gpu::Stored<T>* const x = weighted.tensors.x[part.tensor] + part.begin;
                           const double sum = SumOfTeam(part.n, team, [=](int64_t i) {
                             const auto value = static_cast<double>(gpu::Widen(x[i]));
                             return value * value;
                           });
                           if (team.rank == 0) partial[chunk] = weighted.factor[part.tensor] * sum;
                         });
}

template <class T>
absl::Status SumPartials(Stream& stream, int64_t chunks, const double* partial, gpu::Stored<T>* y) {
  return gpu::ForEachRow(stream, 1, chunks, [=] BELFRY_GPU(int64_t, const gpu::Team& team) {
    const double sum = SumOf(partial, chunks, team);
    if (team.rank == 0) *y = gpu::Narrow<T>(static_cast<gpu::Compute<T>>(sum));
  });
}

template <class T>
absl::StatusOr<Kernel> MakeL2Losses(const KernelSpec& spec) {
  std::vector<int64_t> sizes;
  int64_t chunks = 0;
  for (const TensorSpec& input : spec.inputs) {
    sizes.push_back(input.shape.elements());
    chunks += GpuNormChunks(sizes.back());
  }
  Kernel kernel;
  kernel.workspace_bytes = sizeof(double) * static_cast<size_t>(chunks);
  kernel.run = [sizes, chunks, factors = L2Factors(spec)](const KernelContext& at) {
    auto* partial = static_cast<double*>(at.workspace);
    for (size_t i = 0; i < sizes.size();) {
      WeightedTensors<T> weighted{};
      for (; i < sizes.size() && !weighted.tensors.parts.full(); ++i) {
        if (sizes[i] == 0) continue;
        weighted.factor[weighted.tensors.parts.count] = factors[i];
        weighted.tensors.Add(at.input<gpu::Stored<T>>(static_cast<int>(i)), sizes[i]);
      }
      RETURN_IF_ERROR(SumChunks(*at.stream, weighted, partial));
      partial += weighted.tensors.parts.chunks();
    }
    return SumPartials<T>(*at.stream, chunks, static_cast<const double*>(at.workspace), at.output<gpu::Stored<T>>(0));
  };
  return kernel;
}

}  // namespace

void AddL2LossesGpuKernels(KernelTable& table) {
  table.AddKernels("L2Losses", Kernels<float, double, Half, BFloat16>(
                                   "GPU", [](auto tag) { return &MakeL2Losses<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
