#include "ops/training/norm_gpu_impl.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_gpu_impl.h"

namespace belfry::ops {
namespace {

// *rate = learning rate times trust ratio. `partial` holds the norms of `chunks` chunks of the variable, then of as
// many of the gradient.
absl::Status FindRate(Stream& stream, const LarsRule& rule, int64_t chunks, const float* learning_rate,
                      const double* partial, double* rate) {
  return gpu::ForEachRow(stream, 1, chunks, [=] BELFRY_GPU(int64_t, const gpu::Team& team) {
    const auto norm_from = [&](const double* from) {
      return NormOfTeam(chunks, team, [=](int64_t i) { return from[i]; });
    };
    const double variable = norm_from(partial), gradient = norm_from(partial + chunks);
    if (team.rank == 0) *rate = static_cast<double>(*learning_rate) * rule.Trust(variable, gradient);
  });
}

template <class T, class C = gpu::Compute<T>>
struct LarsAt {
  C momentum;
  const double* adapted;  // null if not adapted
  BELFRY_GPU LarsRule::Update<C> operator()(const UpdateData<T, 1>& data) const {
    return {static_cast<C>(adapted == nullptr ? static_cast<double>(*data.learning_rate) : *adapted), momentum};
  }
};

template <class T>
absl::Status UpdateAll(Stream& stream, int64_t n, const UpdateData<T, 1>& data, const LarsAt<T>& make) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    if (data.only_if == nullptr || *data.only_if) UpdateElement(data, make(data), i);
  });
}

template <class T>
absl::StatusOr<Kernel> MakeLars(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  const LarsRule rule(spec.attrs);
  const int64_t n = spec.outputs[0].shape.elements(), chunks = GpuNormChunks(n);
  const Condition condition(spec, 4);
  Kernel kernel;
  kernel.workspace_bytes = rule.adapt ? sizeof(double) * static_cast<size_t>(1 + 2 * chunks) : 0;
  kernel.run = [=](const KernelContext& at) {
    auto* const rate = rule.adapt ? static_cast<double*>(at.workspace) : nullptr;
    if (n > 0 && rate != nullptr) {
      NormTensors<T> tensors{};
      tensors.Add(at.ref<S>(0), n);
      tensors.Add(at.input<S>(3), n);
      RETURN_IF_ERROR(GpuChunkNorms(*at.stream, tensors, rate + 1));
      RETURN_IF_ERROR(FindRate(*at.stream, rule, chunks, at.input<float>(2), rate + 1, rate));
    }
    const UpdateData<T, 1> data{.variable = at.ref<S>(0),
                                .slot = {at.ref<S>(1)},
                                .gradient = at.input<S>(3),
                                .weight_decay = static_cast<C>(rule.weight_decay),
                                .only_if = condition.At(at),
                                .learning_rate = at.input<float>(2),
                                .step = nullptr};
    return UpdateAll(*at.stream, n, data, LarsAt<T>{static_cast<C>(rule.momentum), rate});
  };
  return kernel;
}

}  // namespace

void AddLarsGpuKernels(KernelTable& table) {
  table.AddKernels("ApplyLars", Kernels<float, double, Half, BFloat16>(
                                    "GPU", [](auto tag) { return &MakeLars<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
