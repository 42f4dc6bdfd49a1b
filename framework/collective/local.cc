#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/half.h"
#include "framework/base/status.h"
#include "framework/collective/collective.h"

namespace belfry {
namespace {

// Elements summed at a time: small enough to stay in the first-level cache, so that each rank's data is read once.
constexpr int64_t kBlock = 1024;

template <class T>
struct Accumulator {
  using type = float;
};
template <>
struct Accumulator<double> {
  using type = double;
};

class LocalCollective final : public Collective {
 public:
  explicit LocalCollective(CollectiveSpec spec) : spec_(std::move(spec)) {
    for (Device* device : spec_.participants) {
      arrived_.push_back(device->NewEvent());
      done_.push_back(device->NewEvent());
    }
  }

  absl::Status Run(int participant, uint32_t run, absl::Time deadline) override {
    RETURN_IF_ERROR(Meet(arrived_, participant, run, deadline));
    const auto parts = static_cast<int64_t>(spec_.participants.size());
    const int64_t begin = spec_.elements * participant / parts, end = spec_.elements * (participant + 1) / parts;
    const absl::Status status = Compute(begin, end);
    // The others wait for this participant's slice whatever became of it: every one of them sees the same error.
    RETURN_IF_ERROR(Meet(done_, participant, run, deadline));
    return status;
  }

  void Cancel() override {
    for (auto& event : arrived_) event->Cancel();
    for (auto& event : done_) event->Cancel();
  }

  void Reset(uint32_t run) override {
    for (auto& event : arrived_) event->Reset(run);
    for (auto& event : done_) event->Reset(run);
  }

 private:
  absl::Status Meet(std::vector<std::unique_ptr<Event>>& events, int participant, uint32_t run, absl::Time deadline) {
    events[participant]->Record(run);
    for (auto& event : events) RETURN_IF_ERROR(event->Wait(run, deadline));
    return absl::OkStatus();
  }

  absl::Status Compute(int64_t begin, int64_t end) const {
    if (spec_.kind == CollectiveKind::kBroadcast) {
      Broadcast(begin, end);
      return absl::OkStatus();
    }
    switch (spec_.dtype) {
      case DType::kFloat32: return Reduce<float>(begin, end);
      case DType::kFloat64: return Reduce<double>(begin, end);
      case DType::kFloat16: return Reduce<Half>(begin, end);
      case DType::kBFloat16: return Reduce<BFloat16>(begin, end);
      default: BELFRY_CHECK(false);
    }
  }

  void Broadcast(int64_t begin, int64_t end) const {
    const size_t size = SizeOf(spec_.dtype);
    if (begin == end) return;
    for (size_t r = 1; r < spec_.ranks.size(); ++r) {
      std::memcpy(static_cast<std::byte*>(spec_.ranks[r].data) + begin * size,
                  static_cast<const std::byte*>(spec_.ranks[0].data) + begin * size, (end - begin) * size);
    }
  }

  template <class T>
  absl::Status Reduce(int64_t begin, int64_t end) const {
    using A = typename Accumulator<T>::type;
    double total = 0;
    bool equal = true;
    const bool mean = spec_.kind == CollectiveKind::kMean;
    if (mean) {
      const float first = *spec_.ranks[0].weight;
      for (const CollectiveRank& rank : spec_.ranks) {
        total += *rank.weight;
        equal = equal && *rank.weight == first;
      }
      if (!(total > 0)) {
        return absl::InvalidArgumentError(absl::StrCat("collective '", spec_.name, "': the towers' weights add up to ",
                                                       total, "; no tower has an example"));
      }
    }
    const auto ranks = static_cast<double>(spec_.ranks.size());
    const A divisor = static_cast<A>(!mean ? 1.0 : equal ? ranks : total);
    A sum[kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t n = std::min(kBlock, end - at);
      std::fill_n(sum, n, A{0});
      for (const CollectiveRank& rank : spec_.ranks) {
        const T* data = static_cast<const T*>(rank.data) + at;
        const A weight = !mean || equal ? A{1} : static_cast<A>(*rank.weight);
        if (weight == A{0}) continue;
        for (int64_t i = 0; i < n; ++i) sum[i] += weight * static_cast<A>(data[i]);
      }
      for (const CollectiveRank& rank : spec_.ranks) {
        T* data = static_cast<T*>(rank.data) + at;
        for (int64_t i = 0; i < n; ++i) data[i] = static_cast<T>(sum[i] / divisor);
      }
    }
    return absl::OkStatus();
  }

  const CollectiveSpec spec_;
  std::vector<std::unique_ptr<Event>> arrived_, done_;  // one per participant
};

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> MakeLocalCollective(CollectiveSpec spec) {
  if (spec.kind != CollectiveKind::kBroadcast && !IsFloating(spec.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("collective '", spec.name, "': cannot average ", DTypeName(spec.dtype), ", only floats"));
  }
  for (const Device* device : spec.participants) {
    if (device->type() != "CPU") {
      return absl::InvalidArgumentError(absl::StrCat("collective '", spec.name,
                                                     "': the local averager for CPU devices ", "was given ",
                                                     device->name().ToString()));
    }
  }
  return std::make_unique<LocalCollective>(std::move(spec));
}

}  // namespace belfry
