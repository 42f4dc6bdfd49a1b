#include <cstdint>
#include <limits>

#include "framework/base/status.h"
#include "framework/collective/tower_tree.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/kernel_table.h"
#include "ops/gpu/divider_impl.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

// An index outside the series changes nothing.
template <class T>
absl::Status AddToSeries(Stream& stream, int64_t n, int64_t series, gpu::Compute<T>* sums, const gpu::Stored<T>* value,
                         const float* weight, const int64_t* index) {
  using C = gpu::Compute<T>;
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    if (*index < 0 || *index >= series) return;
    const uint64_t merges = TreeMerges(*index, series);
    // The product of floats is exact in double, so it is rounded before it is added.
    C sum = 0;
    if (*weight != 0) {
      sum += static_cast<C>(static_cast<double>(*weight) * static_cast<double>(gpu::Widen(value[i])));
    }
    for (int64_t level = 0; merges >> level != 0; ++level) {
      if ((merges >> level & 1) != 0) sum = sums[level * n + i] + sum;
    }
    sums[TreeLevel(*index, series) * n + i] = sum;
  });
}

template <class T>
absl::StatusOr<Kernel> MakeAddToSeries(const KernelSpec& spec) {
  return Kernel{[n = spec.inputs[1].shape.elements(), series = spec.attrs.Int("series")](const KernelContext& at) {
    return AddToSeries<T>(*at.stream, n, series, at.ref<gpu::Compute<T>>(0), at.input<gpu::Stored<T>>(1),
                          at.input<float>(2), at.input<int64_t>(3));
  }};
}

template <class T>
absl::StatusOr<Kernel> MakeDivideSeries(const KernelSpec& spec) {
  return Kernel{[n = spec.inputs[0].shape.Remove(0).elements()](const KernelContext& at) {
    T* const sum = at.ref<T>(0);
    const double* const total = at.input<double>(1);
    return gpu::ForEach(*at.stream, n, [=] BELFRY_GPU(int64_t i) { sum[i] /= static_cast<T>(*total); });
  }};
}

absl::Status AssignRow(Stream& stream, int64_t rows, int64_t bytes, char* to, const char* from, const int64_t* index) {
  return gpu::ForEach(stream, bytes, [=] BELFRY_GPU(int64_t i) {
    if (*index >= 0 && *index < rows) to[*index * bytes + i] = from[i];
  });
}

absl::StatusOr<Kernel> MakeAssignRow(const KernelSpec& spec) {
  return Kernel{
      [rows = spec.inputs[0].shape[0], bytes = static_cast<int64_t>(spec.inputs[1].bytes())](const KernelContext& at) {
        return AssignRow(*at.stream, rows, bytes, at.ref<char>(0), at.input<char>(1), at.input<int64_t>(2));
      }};
}

absl::Status TotalWeight(Stream& stream, int64_t n, const float* weights, double* total) {
  return gpu::ForEach(stream, 1, [=] BELFRY_GPU(int64_t) {
    double sum = 0;
    bool valid = true;
    for (int64_t i = 0; i < n; ++i) {
      sum += static_cast<double>(weights[i]);
      valid = valid && weights[i] >= 0;
    }
    *total = valid && sum > 0 ? sum : std::numeric_limits<double>::quiet_NaN();
  });
}

absl::StatusOr<Kernel> MakeTotalWeight(const KernelSpec& spec) {
  return Kernel{[n = spec.inputs[0].shape.elements()](const KernelContext& at) {
    return TotalWeight(*at.stream, n, at.input<float>(0), at.output<double>(0));
  }};
}

}  // namespace

void AddSeriesGpuKernels(KernelTable& table) {
  table.AddKernels("AddToSeries", Kernels<float, double, Half, BFloat16>(
                                      "GPU", [](auto tag) { return &MakeAddToSeries<typename decltype(tag)::type>; }));
  table.AddKernels("DivideSeries", Kernels<float, double>("GPU", [](auto tag) {
                     return &MakeDivideSeries<typename decltype(tag)::type>;
                   }));
  std::vector<KernelDef> rows;
  for (const DType dtype : kAllDTypes) rows.push_back({"GPU", dtype, &MakeAssignRow});
  table.AddKernels("AssignRow", std::move(rows));
  table.AddKernels("TotalWeight", {{"GPU", DType::kFloat32, &MakeTotalWeight}});
}

}  // namespace belfry::ops
