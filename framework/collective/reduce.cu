// Kernels of the collectives. Compiled without fusing a product and a sum into one rounding, so that the bits are the
// CPU's.
#include <limits>
#include <type_traits>

#include "framework/base/status.h"
#include "framework/collective/gpu_reduce.h"
#include "framework/collective/tower_tree.h"
#include "framework/device/cuda/launch.h"

namespace belfry {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Computes the factors of a mean, by the rules of ReduceOnHost.
absl::Status ReadWeights(Stream& stream, RankEntry* entries, int ranks) {
  return gpu::ForEach(stream, 1, [=] BELFRY_GPU(int64_t) {
    double total = 0;
    for (int r = 0; r < ranks; ++r) {
      entries[r].factor = static_cast<double>(*entries[r].weight);
      total += entries[r].factor;
    }
    entries[ranks].factor = total > 0 ? total : kNotANumber;
  });
}

template <class T>
absl::Status Reduce(Stream& stream, const RankEntry* entries, int ranks, int64_t elements) {
  using S = gpu::Stored<T>;
  using A = Accumulator<T>;
  return gpu::ForEach(stream, elements, [=] BELFRY_GPU(int64_t i) {
    A waiting[kMaxWaitingRanks];
    int count = 0;
    for (int r = 0; r < ranks; ++r) {
      const A factor = static_cast<A>(entries[r].factor);
      A sum = 0;
      if (factor != A{0}) sum += factor * static_cast<A>(gpu::Widen(static_cast<const S*>(entries[r].data)[i]));
      for (int carries = TreeCarries(r); carries > 0; --carries) sum = waiting[--count] + sum;
      waiting[count++] = sum;
    }
    A sum = waiting[--count];
    while (count > 0) sum = waiting[--count] + sum;
    const S result = gpu::Narrow<T>(sum / static_cast<A>(entries[ranks].factor));
    for (int r = 0; r < ranks; ++r) static_cast<S*>(entries[r].data)[i] = result;
  });
}

template <class Word>
absl::Status Broadcast(Stream& stream, const RankEntry* entries, int ranks, int64_t elements) {
  return gpu::ForEach(stream, elements, [=] BELFRY_GPU(int64_t i) {
    const Word value = static_cast<const Word*>(entries[0].data)[i];
    for (int r = 1; r < ranks; ++r) static_cast<Word*>(entries[r].data)[i] = value;
  });
}

template <class T>
absl::Status Scale(Stream& stream, int64_t elements, void* data, const float* weight, const float* total) {
  using S = gpu::Stored<T>;
  using A = Accumulator<T>;
  S* const values = static_cast<S*>(data);
  return gpu::ForEach(stream, elements, [=] BELFRY_GPU(int64_t i) {
    A factor = static_cast<A>(*weight);
    if (total != nullptr) factor = *total > 0 ? factor / static_cast<A>(*total) : static_cast<A>(kNotANumber);
    values[i] = gpu::Narrow<T>(factor == A{0} ? A{0} : factor * static_cast<A>(gpu::Widen(values[i])));
  });
}

template <class T>
absl::Status Divide(Stream& stream, int64_t elements, void* data, const float* total) {
  using S = gpu::Stored<T>;
  using A = Accumulator<T>;
  S* const values = static_cast<S*>(data);
  return gpu::ForEach(stream, elements, [=] BELFRY_GPU(int64_t i) {
    const A divisor = *total > 0 ? static_cast<A>(*total) : static_cast<A>(kNotANumber);
    values[i] = gpu::Narrow<T>(static_cast<A>(gpu::Widen(values[i])) / divisor);
  });
}

}  // namespace

absl::Status WriteEntry(Stream& stream, RankEntry* entry, void* data, const float* weight) {
  return gpu::ForEach(stream, 1, [=] BELFRY_GPU(int64_t) { *entry = {data, weight, 1.0}; });
}

absl::Status ReduceEntries(Stream& stream, CollectiveKind kind, DType dtype, RankEntry* entries, int ranks,
                           int64_t elements) {
  if (kind == CollectiveKind::kBroadcast) {
    switch (SizeOf(dtype)) {
      case 1: return Broadcast<uint8_t>(stream, entries, ranks, elements);
      case 2: return Broadcast<uint16_t>(stream, entries, ranks, elements);
      case 4: return Broadcast<uint32_t>(stream, entries, ranks, elements);
      default: return Broadcast<uint64_t>(stream, entries, ranks, elements);
    }
  }
  if (kind == CollectiveKind::kMean) RETURN_IF_ERROR(ReadWeights(stream, entries, ranks));
  switch (dtype) {
    case DType::kFloat64: return Reduce<double>(stream, entries, ranks, elements);
    case DType::kFloat16: return Reduce<Half>(stream, entries, ranks, elements);
    case DType::kBFloat16: return Reduce<BFloat16>(stream, entries, ranks, elements);
    default: return Reduce<float>(stream, entries, ranks, elements);
  }
}

absl::Status ScaleByWeight(Stream& stream, DType dtype, int64_t elements, void* data, const float* weight,
                           const float* total) {
  switch (dtype) {
    case DType::kFloat64: return Scale<double>(stream, elements, data, weight, total);
    case DType::kFloat16: return Scale<Half>(stream, elements, data, weight, total);
    case DType::kBFloat16: return Scale<BFloat16>(stream, elements, data, weight, total);
    default: return Scale<float>(stream, elements, data, weight, total);
  }
}

absl::Status DivideByTotal(Stream& stream, DType dtype, int64_t elements, void* data, const float* total) {
  switch (dtype) {
    case DType::kFloat64: return Divide<double>(stream, elements, data, total);
    case DType::kFloat16: return Divide<Half>(stream, elements, data, total);
    case DType::kBFloat16: return Divide<BFloat16>(stream, elements, data, total);
    default: return Divide<float>(stream, elements, data, total);
  }
}

}  // namespace belfry
