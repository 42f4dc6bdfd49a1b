// Sums and means of rows with equal indices on GPUs, without atomics.
#include <cstdint>

#include "framework/base/status.h"
#include "framework/collective/tower_tree.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/kernel_table.h"
#include "ops/common/index_type_impl.h"
#include "ops/gpu/divider_impl.h"
#include "ops/index/row_sums_gpu_impl.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

constexpr int64_t kSkipped = 0xffffffff;  // the index of rows that count for nothing; it comes last

// Means of rows, as MeanOfRows in sum_rows.cc.
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

// Enqueues kept[k] = the index of position k if it is the first one with it, or -1.
template <class Index>
absl::Status KeepFirst(Stream& stream, int64_t count, const uint64_t* sorted, Index* kept) {
  return gpu::ForEach(stream, count, [=] BELFRY_GPU(int64_t s) {
    const int64_t row = RowOf(sorted[s]);
    const bool first = row != kSkipped && (s == 0 || RowOf(sorted[s - 1]) != row);
    kept[PositionOf(sorted[s])] = static_cast<Index>(first ? row : -1);
  });
}

// The rows of the sums, by the first position of an index.
template <class S>
struct RowsByPosition {
  S* sums;
  BELFRY_GPU S* At(const GatherLayout& layout, uint64_t key, int64_t, int64_t column) const {
    return sums + PositionOf(key) * layout.inner + column;
  }
};

template <class T, class Index>
Kernel SumRowsKernel(int64_t count, int64_t width) {
  using S = gpu::Stored<T>;
  const SumPlan plan({.rows = kSkipped, .count = count, .inner = width});
  return {[=](const KernelContext& context) -> absl::Status {
            if (count == 0) return absl::OkStatus();
            Stream& stream = *context.stream;
            auto* const sums = context.output<S>(0);
            RETURN_IF_ERROR(gpu::SetBytes(stream, sums, 0, static_cast<size_t>(count * width) * sizeof(S)));
            ASSIGN_OR_RETURN(const uint64_t* const sorted,
                             SumEqualRows<T>(stream, plan, context.input<Index>(1), context.input<S>(0),
                                             context.workspace, RowsByPosition<S>{sums}));
            return KeepFirst(stream, count, sorted, context.output<Index>(1));
          },
          plan.workspace_bytes<gpu::Compute<T>>()};
}

// The sort key of a row that counts, as that of a row of index kSkipped if it does not.
template <class Index, class Rule>
struct CountedKeyAt {
  RowKeyAt<Index> key;
  Rule rule;
  BELFRY_GPU uint64_t operator()(int64_t i) const {
    return rule.Counts(i) ? key(i) : static_cast<uint64_t>(kSkipped) << 32 | static_cast<uint64_t>(i);
  }
};

// One thread adds up an index, which has at most a row of each tower.
template <class T, class Index, class Rule>
absl::Status AverageRows(const KernelContext& context, int64_t count, int64_t width, const Rule& rule) {
  if (count == 0) return absl::OkStatus();
  Stream& stream = *context.stream;
  auto* const a = static_cast<uint64_t*>(context.workspace);
  const CountedKeyAt<Index, Rule> key{{context.input<Index>(1), kSkipped}, rule};
  RETURN_IF_ERROR(SortKeys(stream, count, key, a, a + count));
  const uint64_t* const sorted = SortedIn(count, a, a + count);
  RETURN_IF_ERROR(KeepFirst(stream, count, sorted, context.output<Index>(1)));
  const auto* const rows = context.input<gpu::Stored<T>>(0);
  auto* const means = context.output<gpu::Stored<T>>(0);
  const Divider by_width(width, count * width);
  return gpu::ForEach(stream, count * width, [=] BELFRY_GPU(int64_t i) {
    int64_t s = i;
    const int64_t column = by_width.Split(s);
    const int64_t row = RowOf(sorted[s]);
    gpu::Compute<T> result = 0;
    if (row != kSkipped && (s == 0 || RowOf(sorted[s - 1]) != row)) {
      Rule mean = rule;
      for (int64_t k = s; k < count && RowOf(sorted[k]) == row; ++k) {
        const int64_t at = PositionOf(sorted[k]);
        mean.Add(at, gpu::Widen(rows[at * width + column]));
      }
      result = mean.Result();
    }
    means[PositionOf(sorted[s]) * width + column] = gpu::Narrow<T>(result);
  });
}

template <class T, class Index>
Kernel MeanRowsKernel(int64_t count, int64_t width, int64_t towers) {
  return {[=](const KernelContext& context) {
            const MeanRule<gpu::Compute<T>, Index> rule(context.input<Index>(2), context.input<float>(3), towers);
            return AverageRows<T, Index>(context, count, width, rule);
          },
          2 * static_cast<size_t>(count) * sizeof(uint64_t)};
}

template <class T>
absl::StatusOr<Kernel> MakeSumRows(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const RowsShape rows, RowsToSum(spec));
  return WithIndexType(spec.inputs[1].dtype,
                       [&](auto index) { return SumRowsKernel<T, decltype(index)>(rows.count, rows.width); });
}

template <class T>
absl::StatusOr<Kernel> MakeMeanRows(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const RowsShape rows, RowsToSum(spec));
  const int64_t towers = spec.inputs[3].shape.elements();
  return WithIndexType(spec.inputs[1].dtype,
                       [&](auto index) { return MeanRowsKernel<T, decltype(index)>(rows.count, rows.width, towers); });
}

}  // namespace

void AddSumRowsGpuKernels(KernelTable& table) {
  table.AddKernels("SumRows", Kernels<float, double, Half, BFloat16>(
                                  "GPU", [](auto tag) { return &MakeSumRows<typename decltype(tag)::type>; }));
  table.AddKernels("MeanRows", Kernels<float, double, Half, BFloat16>(
                                   "GPU", [](auto tag) { return &MakeMeanRows<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
