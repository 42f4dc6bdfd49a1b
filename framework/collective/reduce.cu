// Compiled so that no product and sum are fused into one rounding: the bits are the CPU's.
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/collective/gpu_reduce.h"
#include "framework/collective/reach.h"
#include "framework/device/cuda/launch.h"

namespace belfry {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

// Of one rank, in the memory of the GPU that reads it. The entry after the last rank's has the divisor as its factor.
struct RankEntry {
  void* data;
  const float* weight;
  double factor;
};

template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

absl::Status WriteEntry(Stream& stream, RankEntry* entry, void* data, const float* weight) {
  return gpu::ForEach(stream, 1, [=] BELFRY_GPU(int64_t) { *entry = {data, weight, 1.0}; });
}

// The factors of a mean, as in ReduceOnHost.
absl::Status ReadWeights(Stream& stream, RankEntry* entries, int ranks) {
  return gpu::ForEach(stream, 1, [=] BELFRY_GPU(int64_t) {
    double total = 0;
    bool equal = true;
    const float first = *entries[0].weight;
    for (int r = 0; r < ranks; ++r) {
      const float weight = *entries[r].weight;
      total += weight;
      equal = equal && weight == first;
    }
    for (int r = 0; r < ranks; ++r) entries[r].factor = equal ? 1.0 : static_cast<double>(*entries[r].weight);
    entries[ranks].factor = !(total > 0) ? kNotANumber : equal ? static_cast<double>(ranks) : total;
  });
}

template <class T>
absl::Status Reduce(Stream& stream, const RankEntry* entries, int ranks, int64_t begin, int64_t end) {
  using S = gpu::Stored<T>;
  using A = Accumulator<T>;
  return gpu::ForEach(stream, end - begin, [=] BELFRY_GPU(int64_t k) {
    const int64_t i = begin + k;
    A sum = 0;
    for (int r = 0; r < ranks; ++r) {
      const A factor = static_cast<A>(entries[r].factor);
      if (factor == A{0}) continue;
      sum += factor * static_cast<A>(gpu::Widen(static_cast<const S*>(entries[r].data)[i]));
    }
    const S result = gpu::Narrow<T>(sum / static_cast<A>(entries[ranks].factor));
    for (int r = 0; r < ranks; ++r) static_cast<S*>(entries[r].data)[i] = result;
  });
}

template <class Word>
absl::Status Broadcast(Stream& stream, const RankEntry* entries, int ranks, int64_t begin, int64_t end) {
  return gpu::ForEach(stream, end - begin, [=] BELFRY_GPU(int64_t k) {
    const int64_t i = begin + k;
    const Word value = static_cast<const Word*>(entries[0].data)[i];
    for (int r = 1; r < ranks; ++r) static_cast<Word*>(entries[r].data)[i] = value;
  });
}

absl::Status RunPart(Stream& stream, const CollectiveSpec& spec, RankEntry* entries, int64_t begin, int64_t end) {
  const int ranks = static_cast<int>(spec.ranks.size());
  if (begin == end) return absl::OkStatus();
  if (spec.kind == CollectiveKind::kBroadcast) {
    switch (SizeOf(spec.dtype)) {
      case 1: return Broadcast<uint8_t>(stream, entries, ranks, begin, end);
      case 2: return Broadcast<uint16_t>(stream, entries, ranks, begin, end);
      case 4: return Broadcast<uint32_t>(stream, entries, ranks, begin, end);
      default: return Broadcast<uint64_t>(stream, entries, ranks, begin, end);
    }
  }
  if (spec.kind == CollectiveKind::kMean) RETURN_IF_ERROR(ReadWeights(stream, entries, ranks));
  switch (spec.dtype) {
    case DType::kFloat64: return Reduce<double>(stream, entries, ranks, begin, end);
    case DType::kFloat16: return Reduce<Half>(stream, entries, ranks, begin, end);
    case DType::kBFloat16: return Reduce<BFloat16>(stream, entries, ranks, begin, end);
    default: return Reduce<float>(stream, entries, ranks, begin, end);
  }
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

absl::StatusOr<CollectiveSlice> MakeGpuSlice(const CollectiveSpec& spec) {
  for (const Device* from : spec.participants) {
    for (const Device* to : spec.participants) {
      if (Reaches(*from, *to)) continue;
      return absl::FailedPreconditionError(absl::StrCat("collective '", spec.name, "': ", from->name().ToString(),
                                                        " cannot read the memory of ", to->name().ToString(),
                                                        ", as the local averager has to; use --averager=nccl"));
    }
  }
  auto tables = std::make_shared<std::vector<DeviceMemory>>();
  for (Device* device : spec.participants) {
    ASSIGN_OR_RETURN(DeviceMemory table, DeviceMemory::Allocate(*device, (spec.ranks.size() + 1) * sizeof(RankEntry)));
    ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device->NewStream(StreamKind::kCollective));
    auto* const entries = static_cast<RankEntry*>(table.data());
    for (size_t r = 0; r < spec.ranks.size(); ++r) {
      RETURN_IF_ERROR(WriteEntry(*stream, entries + r, spec.ranks[r].data, spec.ranks[r].weight));
    }
    RETURN_IF_ERROR(WriteEntry(*stream, entries + spec.ranks.size(), nullptr, nullptr));
    RETURN_IF_ERROR(stream->Synchronize());
    tables->push_back(std::move(table));
  }
  return [tables](const CollectiveSpec& of, const CollectivePart& part, Stream& stream) {
    return RunPart(stream, of, static_cast<RankEntry*>((*tables)[part.participant].data()), part.begin, part.end);
  };
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
