#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/collective/tower_tree.h"
#include "ops/common/compute_impl.h"
#include "ops/common/index_type_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/training.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> SumRowsShape(const ShapeArgs& args) {
  const Shape &rows = args.inputs[0], &indices = args.inputs[1];
  if (rows.rank() < 1 || indices.rank() != 1 || !Shape{rows[0]}.CompatibleWith(indices)) {
    return absl::InvalidArgumentError(absl::StrCat("'rows' has shape ", rows.ToString(), " and 'indices' ",
                                                   indices.ToString(), "; expected [K, ...] and [K]"));
  }
  return std::vector<Shape>{rows, indices};
}

// Positions of equal indices as chains, by an open hash table.
struct Chains {
  int32_t* table;  // [slots]: a position + 1; 0: free
  int32_t* next;   // [count]: the next position with the same index, or -1
  int32_t* last;   // [count]: for the first position of an index, the last one yet; -1 for the others
  uint64_t mask;

  static uint64_t Slots(int64_t count) {
    uint64_t slots = 2;
    while (slots < 2 * static_cast<uint64_t>(count)) slots *= 2;
    return slots;
  }
  static size_t Bytes(int64_t count) { return (Slots(count) + 2 * static_cast<uint64_t>(count)) * sizeof(int32_t); }
  Chains(void* workspace, int64_t count)
      : table(static_cast<int32_t*>(workspace)),
        next(table + Slots(count)),
        last(next + count),
        mask(Slots(count) - 1) {}

  // Positions that counts(k) rejects are in no chain.
  template <class Index, class Counts>
  void Link(const Index* indices, int64_t count, const Counts& counts) const {
    std::fill(table, table + mask + 1, 0);
    for (int64_t k = 0; k < count; ++k) {
      next[k] = last[k] = -1;
      if (indices[k] < 0 || !counts(k)) continue;
      // The multiplier of Fibonacci hashing: 2^64 divided by the golden ratio.
      uint64_t slot = (static_cast<uint64_t>(indices[k]) * 0x9e3779b97f4a7c15u >> 32) & mask;
      while (table[slot] != 0 && indices[table[slot] - 1] != indices[k]) slot = (slot + 1) & mask;
      const auto position = static_cast<int32_t>(k);
      if (table[slot] == 0) {
        table[slot] = position + 1;
        last[k] = position;
      } else {
        const int32_t first = table[slot] - 1;
        next[last[first]] = position;
        last[first] = position;
      }
    }
  }
};

constexpr int64_t kColumns = 64;  // of a row at a time

// Adds up rows[k], rows[next[k]] ... in this order.
template <class T>
struct SumOfRows {
  bool Counts(int64_t) const { return true; }
  void AddUp(const T* rows, const int32_t* next, int64_t k, int64_t width, T* to) const {
    using C = Compute<T>;
    if (next[k] < 0) {
      std::copy_n(rows + k * width, width, to);
      return;
    }
    for (int64_t start = 0; start < width; start += kColumns) {
      const int64_t columns = std::min(kColumns, width - start);
      C sums[kColumns] = {};
      for (int64_t at = k; at >= 0; at = next[at]) {
        const T* from = rows + at * width + start;
        for (int64_t i = 0; i < columns; ++i) sums[i] += static_cast<C>(from[i]);
      }
      for (int64_t i = 0; i < columns; ++i) to[start + i] = static_cast<T>(sums[i]);
    }
  }
};

// The mean by the weights of the towers that rows belong to. The same operations on an element as in the mean of the
// averager `local` (framework/collective/local.cc), so that rows and dense gradients have the same bits: a tower
// without the row would add zero.
template <class T, class Index>
class MeanOfRows {
 public:
  using C = Compute<T>;

  MeanOfRows(const Index* tower_of_row, const float* weight_of_tower, int64_t towers)
      : tower_(tower_of_row), weights_(weight_of_tower) {
    double total = 0;
    for (int64_t i = 0; i < towers; ++i) total += weights_[i];
    divisor_ = static_cast<C>(total);
  }
  bool Counts(int64_t k) const { return weights_[tower_[k]] != 0; }
  void AddUp(const T* rows, const int32_t* next, int64_t k, int64_t width, T* to) const {
    C waiting[kMaxWaitingSums][kColumns];
    Index last[kMaxWaitingSums];  // tower of each
    for (int64_t start = 0; start < width; start += kColumns) {
      const int64_t columns = std::min(kColumns, width - start);
      int count = 0;
      const auto add_last = [&](int& waits) {
        --waits;
        for (int64_t i = 0; i < columns; ++i) waiting[waits - 1][i] += waiting[waits][i];
        last[waits - 1] = last[waits];
      };
      for (int64_t at = k; at >= 0; at = next[at]) {
        const Index tower = tower_[at];
        while (count > 1 && AddsUpBefore(last[count - 2], last[count - 1], tower)) add_last(count);
        const auto weight = static_cast<C>(weights_[tower]);
        const T* from = rows + at * width + start;
        for (int64_t i = 0; i < columns; ++i) waiting[count][i] = C(0) + weight * static_cast<C>(from[i]);
        last[count++] = tower;
      }
      while (count > 1) add_last(count);
      for (int64_t i = 0; i < columns; ++i) to[start + i] = static_cast<T>(waiting[0][i] / divisor_);
    }
  }

 private:
  const Index* tower_;  // by row
  const float* weights_;
  C divisor_;
};

// The chains depend on the indices alone, and each sum on its chain, so results do not depend on the number of threads.
template <class T, class Index, class Rule>
void AddUpRows(const KernelContext& context, const Rule& rule, int64_t count, int64_t width) {
  const T* rows = context.input<T>(0);
  const Index* indices = context.input<Index>(1);
  T* sums = context.output<T>(0);
  auto* kept = context.output<Index>(1);
  const Chains chains(context.workspace, count);
  chains.Link(indices, count, [&](int64_t k) { return rule.Counts(k); });
  ParallelFor(count, static_cast<double>(width), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      kept[k] = chains.last[k] < 0 ? Index{-1} : indices[k];
      if (chains.last[k] < 0) {
        std::fill_n(sums + k * width, width, T(0));
      } else {
        rule.AddUp(rows, chains.next, k, width, sums + k * width);
      }
    }
  });
}

template <class T, class Index>
Kernel SumRowsKernel(int64_t count, int64_t width) {
  return {[count, width](const KernelContext& context) {
            AddUpRows<T, Index>(context, SumOfRows<T>(), count, width);
            return absl::OkStatus();
          },
          Chains::Bytes(count)};
}

template <class T, class Index>
Kernel MeanRowsKernel(int64_t count, int64_t width, int64_t towers) {
  return {[count, width, towers](const KernelContext& context) {
            const MeanOfRows<T, Index> rule(context.input<Index>(2), context.input<float>(3), towers);
            AddUpRows<T, Index>(context, rule, count, width);
            return absl::OkStatus();
          },
          Chains::Bytes(count)};
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

absl::StatusOr<std::vector<Shape>> MeanRowsShape(const ShapeArgs& args) {
  if (args.inputs[2].rank() != 1 || !args.inputs[2].CompatibleWith(args.inputs[1]) || args.inputs[3].rank() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("'towers' has shape ", args.inputs[2].ToString(), " and 'weights' ",
                                                   args.inputs[3].ToString(), "; expected [K], as 'indices', and [N]"));
  }
  return SumRowsShape(args);
}

}  // namespace

Gradient SumRows(OpScope scope, Output rows, Output indices) {
  const std::vector<Output> sums = scope.AddAll("SumRows", {rows, indices});
  return sums.empty() ? Gradient(Output(), Output()) : Gradient(sums[0], sums[1]);
}

Gradient MeanRows(OpScope scope, Output rows, Output indices, Output towers, Output weights) {
  const std::vector<Output> means = scope.AddAll("MeanRows", {rows, indices, towers, weights});
  return means.empty() ? Gradient(Output(), Output()) : Gradient(means[0], means[1]);
}

void RegisterSumRowsOps(OpRegistry& registry) {
  registry.Add({.name = "MeanRows",
                .inputs = {{.name = "rows"},
                           {.name = "indices", .type = "Tindices"},
                           {.name = "towers", .type = "Tindices"},
                           {.name = "weights", .type = "float32"}},
                .outputs = {{.name = "means"}, {.name = "kept", .type = "Tindices"}},
                .types = {{"T", kFloatTypes}, {"Tindices", kIndexTypes}},
                .shape = MeanRowsShape,
                .gradient = NoGradient(kOfUpdates),
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeMeanRows<typename decltype(tag)::type>; })});
  registry.Add({.name = "SumRows",
                .inputs = {{.name = "rows"}, {.name = "indices", .type = "Tindices"}},
                .outputs = {{.name = "sums"}, {.name = "kept", .type = "Tindices"}},
                .types = {{"T", kFloatTypes}, {"Tindices", kIndexTypes}},
                .shape = SumRowsShape,
                .gradient = NoGradient(kOfUpdates),
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeSumRows<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
