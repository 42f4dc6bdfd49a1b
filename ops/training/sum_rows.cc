#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "ops/common/compute_impl.h"
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

  template <class Index>
  void Link(const Index* indices, int64_t count) const {
    std::fill(table, table + mask + 1, 0);
    for (int64_t k = 0; k < count; ++k) {
      next[k] = last[k] = -1;
      if (indices[k] < 0) continue;
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

// Adds up rows[k], rows[next[k]] ... in this order.
template <class T>
void SumChain(const T* rows, const int32_t* next, int64_t k, int64_t width, T* to) {
  using C = Compute<T>;
  constexpr int64_t kColumns = 64;
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

// The chains depend on the indices alone, and each sum on its chain, so results do not depend on the number of threads.
template <class T, class Index>
Kernel SumRowsKernel(int64_t count, int64_t width) {
  Kernel kernel;
  kernel.workspace_bytes = Chains::Bytes(count);
  kernel.run = [count, width](const KernelContext& context) {
    const T* rows = context.input<T>(0);
    const Index* indices = context.input<Index>(1);
    T* sums = context.output<T>(0);
    auto* kept = context.output<Index>(1);
    const Chains chains(context.workspace, count);
    chains.Link(indices, count);
    ParallelFor(count, static_cast<double>(width), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        kept[k] = chains.last[k] < 0 ? Index{-1} : indices[k];
        if (chains.last[k] < 0) {
          std::fill_n(sums + k * width, width, T(0));
        } else {
          SumChain(rows, chains.next, k, width, sums + k * width);
        }
      }
    });
    return absl::OkStatus();
  };
  return kernel;
}

template <class T>
absl::StatusOr<Kernel> MakeSumRows(const KernelSpec& spec) {
  const Shape& rows = spec.inputs[0].shape;
  const int64_t width = rows.elements(1, rows.rank());
  if (rows[0] >= int64_t{1} << 31) return absl::UnimplementedError("more than 2^31 - 1 rows");
  return spec.inputs[1].dtype == DType::kInt32 ? SumRowsKernel<T, int32_t>(rows[0], width)
                                               : SumRowsKernel<T, int64_t>(rows[0], width);
}

}  // namespace

Gradient SumRows(OpScope scope, Output rows, Output indices) {
  const std::vector<Output> sums = scope.AddAll("SumRows", {rows, indices});
  return sums.empty() ? Gradient(Output(), Output()) : Gradient(sums[0], sums[1]);
}

void RegisterSumRowsOps(OpRegistry& registry) {
  registry.Add({.name = "SumRows",
                .inputs = {{.name = "rows"}, {.name = "indices", .type = "Tindices"}},
                .outputs = {{.name = "sums"}, {.name = "kept", .type = "Tindices"}},
                .types = {{"T", kFloatTypes}, {"Tindices", kIndexTypes}},
                .shape = SumRowsShape,
                .not_differentiable = true,
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeSumRows<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
