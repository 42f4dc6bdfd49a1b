#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "ops/gpu/tickets.h"
#include "ops/training/norm_gpu_impl.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

template <class T>
struct WeightedTensors {
  NormTensors<T> tensors;
  double factor[NormTensors<T>::kMax];
};

// Adds the sum over these tensors to `before`, or to 0 if that is null, and rounds it to `y`. partial[chunk] holds the
// chunk's share.
template <class T>
absl::Status SumSquares(Stream& stream, const WeightedTensors<T>& weighted, double* partial, uint32_t* ticket,
                        const double* before, double* sum, gpu::Stored<T>* y) {
  static_assert(sizeof(weighted) <= 3900);
  const int64_t chunks = weighted.tensors.parts.chunks();
  return gpu::ForEachBlockThenLast(
      stream, 1, chunks, 0, ticket,
      [=] BELFRY_GPU(int64_t, int64_t chunk, const gpu::Team& team, void*) {
        const auto part = weighted.tensors.parts.Find(chunk);
        const gpu::Stored<T>* const x = weighted.tensors.x[part.tensor] + part.begin;
        const double squares = SumOfTeam(part.n, team, [=](int64_t i) {
          const auto value = static_cast<double>(gpu::Widen(x[i]));
          return value * value;
        });
        if (team.rank == 0) partial[chunk] = weighted.factor[part.tensor] * squares;
      },
      [=] BELFRY_GPU(int64_t, const gpu::Team& team, void*) {
        const double all = SumOf(partial, chunks, team) + (before == nullptr ? 0 : *before);
        if (team.rank != 0) return;
        *sum = all;
        *y = gpu::Narrow<T>(static_cast<gpu::Compute<T>>(all));
      });
}

template <class T>
absl::StatusOr<Kernel> MakeL2Losses(const KernelSpec& spec) {
  std::vector<int64_t> sizes;
  int64_t chunks = 0;
  bool empty = true;
  for (const TensorSpec& input : spec.inputs) {
    sizes.push_back(input.shape.elements());
    chunks += GpuNormChunks(sizes.back());
    empty = empty && sizes.back() == 0;
  }
  if (empty) {
    return Kernel{
        [](const KernelContext& at) { return gpu::SetBytes(*at.stream, at.outputs[0], 0, sizeof(gpu::Stored<T>)); }};
  }
  ASSIGN_OR_RETURN(std::shared_ptr<uint32_t> ticket, TakeTickets(*spec.device, 1));
  Kernel kernel;
  kernel.workspace_bytes = sizeof(double) * static_cast<size_t>(chunks + 1);
  kernel.run = [sizes, ticket = std::move(ticket), factors = L2Factors(spec)](const KernelContext& at) {
    auto* const sum = static_cast<double*>(at.workspace);
    const double* before = nullptr;
    for (size_t i = 0; i < sizes.size();) {
      WeightedTensors<T> weighted{};
      for (; i < sizes.size() && !weighted.tensors.parts.full(); ++i) {
        if (sizes[i] == 0) continue;
        weighted.factor[weighted.tensors.parts.count] = factors[i];
        weighted.tensors.Add(at.input<gpu::Stored<T>>(static_cast<int>(i)), sizes[i]);
      }
      if (weighted.tensors.parts.count == 0) continue;
      RETURN_IF_ERROR(
          SumSquares(*at.stream, weighted, sum + 1, ticket.get(), before, sum, at.output<gpu::Stored<T>>(0)));
      before = sum;
    }
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace

void AddL2LossesGpuKernels(KernelTable& table) {
  table.AddKernels("L2Losses", Kernels<float, double, Half, BFloat16>(
                                   "GPU", [](auto tag) { return &MakeL2Losses<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
