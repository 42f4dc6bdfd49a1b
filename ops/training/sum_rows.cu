// Sums of rows with equal indices on GPUs, without atomics: the indices are sorted together with their positions.
#include <cstdint>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/kernel_table.h"
#include "ops/gpu/divider_impl.h"
#include "ops/index/sort_gpu_impl.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

constexpr uint64_t kSkipped = 0xffffffff;  // the index of rows that count for nothing; it comes last

// Adds up rows, as SumOfRows in sum_rows.cc.
template <class C>
class SumRule {
 public:
  BELFRY_GPU bool Counts(int64_t) const { return true; }
  BELFRY_GPU void Add(int64_t, C x) { sum_ += x; }
  BELFRY_GPU C Result() const { return sum_; }

 private:
  C sum_ = 0;
};

// Their means, as MeanOfRows there.
template <class C, class Index>
class MeanRule {
 public:
  MeanRule(const Index* tower, const float* weights, int64_t towers)
      : tower_(tower), weights_(weights), towers_(towers) {}
  BELFRY_GPU bool Counts(int64_t k) const { return weights_[tower_[k]] != 0; }
  BELFRY_GPU void Add(int64_t k, C x) {
    while (count_ > 1 && AddsUpBefore(last_[count_ - 2], last_[count_ - 1], tower_[k])) AddLast();
    // In double, where the product of floats is exact, so that it is rounded before it is added.
    waiting_[count_] = C(0) + static_cast<C>(static_cast<double>(weights_[tower_[k]]) * static_cast<double>(x));
    last_[count_++] = tower_[k];
  }
  BELFRY_GPU C Result() {
    while (count_ > 1) AddLast();
    double total = 0;
    for (int64_t i = 0; i < towers_; ++i) total += static_cast<double>(weights_[i]);
    return waiting_[0] / static_cast<C>(total);
  }

 private:
  BELFRY_GPU void AddLast() {
    --count_;
    waiting_[count_ - 1] += waiting_[count_];
    last_[count_ - 1] = last_[count_];
  }

  const Index* tower_;  // by row
  const float* weights_;
  int64_t towers_;
  C waiting_[kMaxWaitingSums];
  Index last_[kMaxWaitingSums];  // tower of each
  int count_ = 0;
};

// The sort key: an index, then its position.
template <class Index, class Rule>
struct KeyAt {
  const Index* indices;
  Rule rule;
  BELFRY_GPU uint64_t operator()(int64_t i) const {
    const auto index = static_cast<int64_t>(indices[i]);
    const bool counts = index >= 0 && index < static_cast<int64_t>(kSkipped) && rule.Counts(i);
    return (counts ? static_cast<uint64_t>(index) : kSkipped) << 32 | static_cast<uint64_t>(i);
  }
};
BELFRY_GPU inline uint64_t IndexOf(uint64_t key) { return key >> 32; }
BELFRY_GPU inline int64_t PositionOf(uint64_t key) { return static_cast<int64_t>(key & 0xffffffff); }

template <class T, class Index, class Rule>
absl::Status AddUpRows(const KernelContext& context, int64_t count, int64_t width, const Rule& rule) {
  if (count == 0) return absl::OkStatus();
  Stream& stream = *context.stream;
  auto* const a = static_cast<uint64_t*>(context.workspace);
  RETURN_IF_ERROR(SortKeys(stream, count, KeyAt<Index, Rule>{context.input<Index>(1), rule}, a, a + count));
  const uint64_t* const sorted = SortedIn(count, a, a + count);
  auto* const kept = context.output<Index>(1);
  RETURN_IF_ERROR(gpu::ForEach(stream, count, [=] BELFRY_GPU(int64_t s) {
    const uint64_t index = IndexOf(sorted[s]);
    const bool first = index != kSkipped && (s == 0 || IndexOf(sorted[s - 1]) != index);
    kept[PositionOf(sorted[s])] = first ? static_cast<Index>(index) : static_cast<Index>(-1);
  }));
  const auto* const rows = context.input<gpu::Stored<T>>(0);
  auto* const sums = context.output<gpu::Stored<T>>(0);
  const Divider by_width(width, count * width);
  return gpu::ForEach(stream, count * width, [=] BELFRY_GPU(int64_t i) {
    int64_t s = i;
    const int64_t column = by_width.Split(s);
    const uint64_t index = IndexOf(sorted[s]);
    gpu::Compute<T> result = 0;
    if (index != kSkipped && (s == 0 || IndexOf(sorted[s - 1]) != index)) {
      Rule sum = rule;
      for (int64_t k = s; k < count && IndexOf(sorted[k]) == index; ++k) {
        const int64_t at = PositionOf(sorted[k]);
        sum.Add(at, gpu::Widen(rows[at * width + column]));
      }
      result = sum.Result();
    }
    sums[PositionOf(sorted[s]) * width + column] = gpu::Narrow<T>(result);
  });
}

template <class T, class Index>
Kernel SumRowsKernel(int64_t count, int64_t width) {
  return {[=](const KernelContext& context) {
            return AddUpRows<T, Index>(context, count, width, SumRule<gpu::Compute<T>>());
          },
          2 * static_cast<size_t>(count) * sizeof(uint64_t)};
}

template <class T, class Index>
Kernel MeanRowsKernel(int64_t count, int64_t width, int64_t towers) {
  return {[=](const KernelContext& context) {
            const MeanRule<gpu::Compute<T>, Index> rule(context.input<Index>(2), context.input<float>(3), towers);
            return AddUpRows<T, Index>(context, count, width, rule);
          },
          2 * static_cast<size_t>(count) * sizeof(uint64_t)};
}

template <class T>
absl::StatusOr<Kernel> MakeSumRows(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const RowsShape rows, RowsToSum(spec));
  return spec.inputs[1].dtype == DType::kInt32 ? SumRowsKernel<T, int32_t>(rows.count, rows.width)
                                               : SumRowsKernel<T, int64_t>(rows.count, rows.width);
}

template <class T>
absl::StatusOr<Kernel> MakeMeanRows(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const RowsShape rows, RowsToSum(spec));
  const int64_t towers = spec.inputs[3].shape.elements();
  return spec.inputs[1].dtype == DType::kInt32 ? MeanRowsKernel<T, int32_t>(rows.count, rows.width, towers)
                                               : MeanRowsKernel<T, int64_t>(rows.count, rows.width, towers);
}

}  // namespace

void AddSumRowsGpuKernels(KernelTable& table) {
  table.AddKernels("SumRows", Kernels<float, double, Half, BFloat16>(
                                  "GPU", [](auto tag) { return &MakeSumRows<typename decltype(tag)::type>; }));
  table.AddKernels("MeanRows", Kernels<float, double, Half, BFloat16>(
                                   "GPU", [](auto tag) { return &MakeMeanRows<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
