#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/half.h"
#include "framework/base/status.h"
#include "framework/collective/collective.h"
#include "framework/collective/gpu_module.h"
#include "framework/collective/tower_tree.h"

namespace belfry {
namespace {

// Elements summed at a time: few enough that the sums stay in the first-level cache while each rank's data is streamed
// through once.
constexpr int64_t kBlock = 1024;

template <class T>
struct Accumulator {
  using type = float;
};
template <>
struct Accumulator<double> {
  using type = double;
};

// The ranks of a reduction, and those of them that get the result.
struct Ranks {
  absl::Span<const CollectiveRank> all, results;
};

void Broadcast(const CollectiveSpec& spec, const Ranks& ranks, int64_t begin, int64_t end) {
  const size_t size = SizeOf(spec.dtype);
  if (begin == end) return;
  const auto* const from = static_cast<const std::byte*>(ranks.all[0].data) + begin * size;
  for (const CollectiveRank& rank : ranks.results) {
    if (rank.data == ranks.all[0].data) continue;
    std::memcpy(static_cast<std::byte*>(rank.data) + begin * size, from, (end - begin) * size);
  }
}

// One NaN for all: the sign of a sum of two depends on which of them an instruction has first, and so on the loop, of
// vectors or not, that an element comes to be in.
template <class T, class A>
T ToResult(A sum) {
  return sum == sum ? static_cast<T>(sum) : std::numeric_limits<T>::quiet_NaN();
}

// The sums of a block that wait for others to be added to, in the order of tower_tree.h.
template <class A>
class TreeSum {
 public:
  // Adds rank number `rank`, the next one: weight * data. Zero plus a product is never -0, so that adding a rank of
  // weight 0, which is left out whatever its data holds, would change nothing.
  template <class T>
  void Add(size_t rank, const T* data, A weight, int64_t n) {
    if (rank % 2 == 0) {
      A* const to = waiting_[count_++];
      if (weight == A{0}) {
        std::fill_n(to, n, A{0});
      } else {
        for (int64_t i = 0; i < n; ++i) to[i] = A{0} + weight * static_cast<A>(data[i]);
      }
      return;
    }
    A* const to = waiting_[count_ - 1];
    for (int64_t i = 0; i < n && weight != A{0}; ++i) to[i] += A{0} + weight * static_cast<A>(data[i]);
    for (int carries = TreeCarries(rank); carries > 1; --carries) AddLast(n);
  }
  // The sum of all.
  const A* Finish(int64_t n) {
    while (count_ > 1) AddLast(n);
    count_ = 0;
    return waiting_[0];
  }

 private:
  void AddLast(int64_t n) {
    --count_;
    for (int64_t i = 0; i < n; ++i) waiting_[count_ - 1][i] += waiting_[count_][i];
  }

  A waiting_[kMaxWaitingRanks][kBlock];
  int count_ = 0;
};

// Invariant: an element's result depends only on the ranks' values and weights at that element, added in an order that
// the ranks' numbers fix (TreeSum). Slices and blocks change which elements are computed together, never the operations
// on one, so the bits depend neither on the number of participants, processes and threads nor on bucket sizes, and
// every rank gets the same ones. Each element is read once and written once per rank.
template <class T>
absl::Status Reduce(const CollectiveSpec& spec, const Ranks& ranks, int64_t begin, int64_t end) {
  using A = typename Accumulator<T>::type;
  double total = 0;
  const bool mean = spec.averages();
  if (mean) {
    for (const CollectiveRank& rank : ranks.all) total += *rank.weight;
    RETURN_IF_ERROR(CheckTotalWeight(spec, total));
  }
  const A divisor = static_cast<A>(mean ? total : 1.0);
  TreeSum<A> tree;
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t n = std::min(kBlock, end - at);
    for (size_t r = 0; r < ranks.all.size(); ++r) {
      const CollectiveRank& rank = ranks.all[r];
      tree.Add(r, static_cast<const T*>(rank.data) + at, mean ? static_cast<A>(*rank.weight) : A{1}, n);
    }
    const A* const sum = tree.Finish(n);
    for (const CollectiveRank& rank : ranks.results) {
      T* data = static_cast<T*>(rank.data) + at;
      for (int64_t i = 0; i < n; ++i) data[i] = ToResult<T>(sum[i] / divisor);
    }
  }
  return absl::OkStatus();
}

template <class T>
void Sum(const CollectiveSpec& spec, int64_t begin, int64_t end, void* to) {
  using A = typename Accumulator<T>::type;
  A* const sums = static_cast<A*>(to);
  std::fill(sums + begin, sums + end, A{0});
  for (const CollectiveRank& rank : spec.ranks) {
    const A weight = spec.averages() ? static_cast<A>(*rank.weight) : A{1};
    if (weight == A{0}) continue;  // it may hold NaN
    const T* data = static_cast<const T*>(rank.data);
    for (int64_t i = begin; i < end; ++i) sums[i] += weight * static_cast<A>(data[i]);
  }
}

template <class T>
void AddSums(const CollectiveSpec& spec, absl::Span<const void* const> sums, int64_t first, double divisor,
             int64_t begin, int64_t end) {
  using A = typename Accumulator<T>::type;
  A total[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t n = std::min(kBlock, end - at);
    std::fill_n(total, n, A{0});
    for (const void* sum : sums) {
      const A* from = static_cast<const A*>(sum) + (at - first);
      for (int64_t i = 0; i < n; ++i) total[i] += from[i];
    }
    for (const CollectiveRank& rank : spec.ranks) {
      T* data = static_cast<T*>(rank.data) + at;
      for (int64_t i = 0; i < n; ++i) data[i] = ToResult<T>(total[i] / static_cast<A>(divisor));
    }
  }
}

// Calls body(x) with an x of the floating-point type.
template <class F>
auto ForDType(DType dtype, const F& body) {
  switch (dtype) {
    case DType::kFloat32: return body(float());
    case DType::kFloat64: return body(double());
    case DType::kFloat16: return body(Half());
    case DType::kBFloat16: return body(BFloat16());
    default: BELFRY_CHECK(false);
  }
}

// A participant's share of a reduce-scatter on CPUs: the slices of its ranks.
absl::Status ReduceSlices(const CollectiveSpec& spec, int participant) {
  for (size_t r = 0; r < spec.ranks.size(); ++r) {
    if (spec.ranks[r].participant != participant) continue;
    const ElementRange slice = SliceOfRank(spec, static_cast<int64_t>(r));
    RETURN_IF_ERROR(ReduceOnHost(spec, spec.ranks, r, 1, slice.begin, slice.end));
  }
  return absl::OkStatus();
}

// A participant's share of an all-gather, on any device: fetches the slices of all others to its ranks.
absl::Status GatherSlices(const CollectiveSpec& spec, const CollectivePart& part, Stream& stream) {
  const auto ranks = static_cast<int64_t>(spec.ranks.size());
  for (const CollectiveRank& to : spec.ranks) {
    if (to.participant != part.participant) continue;
    for (int64_t r = 0; r < ranks; ++r) {
      const CollectiveRank& from = spec.ranks[r];
      const ElementRange slice = SliceOfRank(spec, r);
      const size_t offset = static_cast<size_t>(slice.begin) * SizeOf(spec.dtype);
      const size_t bytes = static_cast<size_t>(slice.size()) * SizeOf(spec.dtype);
      if (to.data == from.data || bytes == 0) continue;
      RETURN_IF_ERROR(stream.Copy(static_cast<std::byte*>(to.data) + offset, *spec.participants[to.participant],
                                  static_cast<const std::byte*>(from.data) + offset,
                                  *spec.participants[from.participant], bytes));
    }
  }
  return absl::OkStatus();
}

// Two meetings make slices safe without locks. After `arrived`, every rank's data is final, so a participant may read
// all of it. After `done`, every slice is written, so a participant may go on and change its data. Runs cannot mix:
// nobody arrives for run n + 1 before everybody is done with run n. Each participant does 1 / participants of the work,
// and waits for the slowest one twice.
class LocalCollective final : public Collective {
 public:
  LocalCollective(CollectiveSpec spec, CollectiveSlice slice) : spec_(std::move(spec)), slice_(std::move(slice)) {
    for (Device* device : spec_.participants) {
      arrived_.push_back(device->NewEvent());
      done_.push_back(device->NewEvent());
    }
  }

  absl::Status Run(int participant, Stream& stream, uint32_t run, absl::Time deadline) override {
    RETURN_IF_ERROR(Meet(arrived_, participant, stream, run, deadline));
    const absl::Status status = Slice(participant, stream);
    // The others wait for this participant's slice whatever became of it. A failure of ReduceOnHost does not depend on
    // the slice, so all participants return the same error.
    RETURN_IF_ERROR(Meet(done_, participant, stream, run, deadline));
    return status;
  }

  bool CanCapture() const override { return true; }

  // One thread enqueues for all. Everybody's arrival is recorded before anybody waits for it, and the same for `done`:
  // otherwise the first wait would block the only thread that can record the rest.
  absl::Status RunAll(absl::Span<Stream* const> streams, uint32_t run, absl::Time deadline) override {
    const size_t parts = streams.size();
    for (size_t i = 0; i < parts; ++i) streams[i]->Record(*arrived_[i], run);
    for (size_t i = 0; i < parts; ++i) {
      RETURN_IF_ERROR(Await(arrived_, *streams[i], run, deadline));
      RETURN_IF_ERROR(Slice(static_cast<int>(i), *streams[i]));
    }
    for (size_t i = 0; i < parts; ++i) streams[i]->Record(*done_[i], run);
    for (Stream* stream : streams) RETURN_IF_ERROR(Await(done_, *stream, run, deadline));
    return absl::OkStatus();
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
  using Events = std::vector<std::unique_ptr<Event>>;

  absl::Status Slice(int participant, Stream& stream) { return slice_(spec_, PartOf(spec_, participant), stream); }
  static absl::Status Await(const Events& events, Stream& stream, uint32_t run, absl::Time deadline) {
    for (const auto& event : events) RETURN_IF_ERROR(stream.Wait(*event, run, deadline));
    return absl::OkStatus();
  }
  static absl::Status Meet(const Events& events, int participant, Stream& stream, uint32_t run, absl::Time deadline) {
    stream.Record(*events[participant], run);
    return Await(events, stream, run, deadline);
  }

  const CollectiveSpec spec_;
  const CollectiveSlice slice_;
  Events arrived_, done_;  // one per participant
};

}  // namespace

absl::Status CheckTotalWeight(const CollectiveSpec& spec, double total) {
  if (total > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("collective '", spec.name, "': the towers' weights add up to ", total, "; no tower has an example"));
}

absl::Status CheckDType(const CollectiveSpec& spec) {
  const bool moves = spec.kind == CollectiveKind::kBroadcast || spec.kind == CollectiveKind::kAllGather;
  if (moves || IsFloating(spec.dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("collective '", spec.name, "': cannot average ", DTypeName(spec.dtype),
                                                 "; only floats can be averaged"));
}

absl::Status ReduceOnHost(const CollectiveSpec& spec, absl::Span<const CollectiveRank> ranks, size_t first,
                          size_t results, int64_t begin, int64_t end) {
  const Ranks of{ranks, ranks.subspan(first, results)};
  if (spec.kind == CollectiveKind::kBroadcast) {
    Broadcast(spec, of, begin, end);
    return absl::OkStatus();
  }
  return ForDType(spec.dtype, [&](auto of_type) { return Reduce<decltype(of_type)>(spec, of, begin, end); });
}

void SumOnHost(const CollectiveSpec& spec, int64_t begin, int64_t end, void* sums) {
  ForDType(spec.dtype, [&](auto of_type) { Sum<decltype(of_type)>(spec, begin, end, sums); });
}

void AddSumsOnHost(const CollectiveSpec& spec, absl::Span<const void* const> sums, int64_t first, double divisor,
                   int64_t begin, int64_t end) {
  ForDType(spec.dtype, [&](auto of_type) { AddSums<decltype(of_type)>(spec, sums, first, divisor, begin, end); });
}

size_t AccumulatorSize(DType dtype) { return dtype == DType::kFloat64 ? sizeof(double) : sizeof(float); }

absl::Status ReduceOnHost(const CollectiveSpec& spec, int64_t begin, int64_t end) {
  return ReduceOnHost(spec, spec.ranks, 0, spec.ranks.size(), begin, end);
}

absl::StatusOr<std::unique_ptr<Collective>> MakeSlicedCollective(CollectiveSpec spec, CollectiveSlice slice) {
  RETURN_IF_ERROR(CheckDType(spec));
  if (spec.spans_processes()) {
    return absl::InvalidArgumentError(absl::StrCat("Collective '", spec.name, "' is for ", spec.size,
                                                   " towers, but the graph has ", spec.ranks.size(), " of them"));
  }
  return std::make_unique<LocalCollective>(std::move(spec), std::move(slice));
}

absl::StatusOr<std::unique_ptr<Collective>> MakeLocalCollective(CollectiveSpec spec) {
  const absl::string_view type = spec.participants[0]->type();
  for (const Device* device : spec.participants) {
    if (device->type() == type && (type == "CPU" || type == "GPU")) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "collective '", spec.name, "': the local averager works among CPU devices or among GPUs, not between ",
        spec.participants[0]->name().ToString(), " and ", device->name().ToString()));
  }
  if (spec.kind == CollectiveKind::kAllGather) return MakeSlicedCollective(std::move(spec), GatherSlices);
  if (type == "CPU") {
    return MakeSlicedCollective(std::move(spec), [](const CollectiveSpec& of, const CollectivePart& part, Stream&) {
      return of.kind == CollectiveKind::kReduceScatter ? ReduceSlices(of, part.participant)
                                                       : ReduceOnHost(of, part.begin, part.end);
    });
  }
  RETURN_IF_ERROR(CheckDType(spec));
  // On GPUs every rank gets all of the mean, and so its slice.
  if (spec.kind == CollectiveKind::kReduceScatter) spec.kind = CollectiveKind::kMean;
  ASSIGN_OR_RETURN(CollectiveSlice slice, MakeGpuSlice(spec));
  return MakeSlicedCollective(std::move(spec), std::move(slice));
}

}  // namespace belfry
