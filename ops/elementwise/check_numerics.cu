#include <algorithm>
#include <memory>
#include <string>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "ops/elementwise/check_numerics_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/gpu/host_word.h"

namespace belfry::ops {
namespace {

constexpr int64_t kPart = 8192, kMaxParts = 4096;

struct Found {
  uint64_t nans = 0, infinities = 0;

  // Packs both counts into one word, so that the host sees them together. Each is capped at 2^32 - 1.
  constexpr uint64_t Packed() const {
    const uint64_t limit = 0xffffffffu;
    return (nans < limit ? nans : limit) << 32 | (infinities < limit ? infinities : limit);
  }
};
struct Plus {
  constexpr Found operator()(const Found& a, const Found& b) const {
    return {a.nans + b.nans, a.infinities + b.infinities};
  }
};

// Copies x to y and counts by part; if there is only one part, reports to the host directly.
template <class T>
absl::Status Check(Stream& stream, int64_t n, int64_t parts, const gpu::Stored<T>* x, gpu::Stored<T>* y, Found* found,
                   uint64_t* host) {
  const int64_t size = (n + parts - 1) / parts;
  return gpu::ForEachRow(stream, parts, size, [=] BELFRY_GPU(int64_t part, const gpu::Team& team) {
    const int64_t begin = part * size, end = begin + size < n ? begin + size : n;
    Found own;
    for (int64_t i = begin + team.rank; i < end; i += team.size) {
      const auto stored = x[i];
      const auto value = gpu::Widen(stored);
      own.nans += value != value;
      own.infinities += value == value && value - value != 0;
      if (y != x) y[i] = stored;
    }
    own = team.Reduce(own, Plus());
    if (team.rank != 0) return;
    if (parts > 1) {
      found[part] = own;
    } else if (own.Packed() != 0) {
      gpu::TellHost(host, own.Packed());
    }
  });
}

absl::Status AddUp(Stream& stream, int64_t parts, const Found* found, uint64_t* host) {
  return gpu::ForEachRow(stream, 1, parts, [=] BELFRY_GPU(int64_t, const gpu::Team& team) {
    Found own;
    for (int64_t i = team.rank; i < parts; i += team.size) own = Plus()(own, found[i]);
    own = team.Reduce(own, Plus());
    if (team.rank == 0 && own.Packed() != 0) gpu::TellHost(host, own.Packed());
  });
}

template <class T>
absl::StatusOr<Kernel> MakeCheckNumerics(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const int64_t n = spec.outputs[0].shape.elements();
  const int64_t parts = std::clamp<int64_t>((n + kPart - 1) / kPart, 1, kMaxParts);
  ASSIGN_OR_RETURN(const std::shared_ptr<HostWord> host, HostWord::Make(*spec.device));
  Kernel kernel;
  kernel.workspace_bytes = parts > 1 ? sizeof(Found) * static_cast<size_t>(parts) : 0;
  kernel.run = [n, parts, host](const KernelContext& at) {
    if (n == 0) return absl::OkStatus();
    auto* const found = static_cast<Found*>(at.workspace);
    RETURN_IF_ERROR(Check<T>(*at.stream, n, parts, at.input<S>(0), at.output<S>(0), found, host->data()));
    return parts > 1 ? AddUp(*at.stream, parts, found, host->data()) : absl::OkStatus();
  };
  kernel.error = [n, host, tensor = CheckedTensor(spec)]() -> absl::Status {
    const uint64_t found = host->Take();
    return found == 0 ? absl::OkStatus() : NumericsError(tensor, found >> 32, found & 0xffffffffu, n);
  };
  return kernel;
}

}  // namespace

void AddCheckNumericsGpuKernels(KernelTable& table) {
  table.AddKernels("CheckNumerics", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeCheckNumerics<typename decltype(tag)::type>;
                   }));
}

}  // namespace belfry::ops
