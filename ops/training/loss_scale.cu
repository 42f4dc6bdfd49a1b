#include <cstdint>
#include <vector>

#include "ops/training/norm_gpu_impl.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

struct NotFinite {
  template <class C>
  BELFRY_GPU C operator()(C x) const {
    return x - x != 0 ? C(1) : C(0);
  }
};

absl::Status NoneCounted(Stream& stream, int64_t chunks, const double* partial, bool* finite) {
  return gpu::ForEachRow(stream, 1, chunks, [=] BELFRY_GPU(int64_t, const gpu::Team& team) {
    const double count = SumOf(partial, chunks, team);
    if (team.rank == 0) *finite = count == 0;
  });
}

template <class T>
absl::StatusOr<Kernel> MakeAllFinite(const KernelSpec& spec) {
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
    RETURN_IF_ERROR(ForNormInputs<T>(at, sizes, partial, [&](const NormTensors<T>& tensors, double* sums) {
      return GpuChunkSums(*at.stream, tensors, sums, NotFinite());
    }));
    return NoneCounted(*at.stream, chunks, partial, at.output<bool>(0));
  };
  return kernel;
}

absl::Status Move(Stream& stream, const LossScaleRule& rule, const bool* finite, float* scale, int64_t* good,
                  int64_t* skipped) {
  return gpu::ForEach(stream, 1, [=] BELFRY_GPU(int64_t) {
    const LossScaleRule::State next = rule.After({static_cast<double>(*scale), *good, *skipped}, *finite);
    *scale = static_cast<float>(next.scale);
    *good = next.good;
    *skipped = next.skipped;
  });
}

absl::StatusOr<Kernel> MakeLossScale(const KernelSpec& spec) {
  return Kernel{[rule = LossScaleRule(spec.attrs)](const KernelContext& at) {
    return Move(*at.stream, rule, at.input<bool>(3), at.ref<float>(0), at.ref<int64_t>(1), at.ref<int64_t>(2));
  }};
}

}  // namespace

void AddLossScaleGpuKernels(KernelTable& table) {
  table.AddKernels("AllFinite", Kernels<float, double, Half, BFloat16>(
                                    "GPU", [](auto tag) { return &MakeAllFinite<typename decltype(tag)::type>; }));
  table.AddKernels("ApplyLossScale", {{"GPU", DType::kFloat32, &MakeLossScale}});
}

}  // namespace belfry::ops
