#include "framework/collective/world_collective.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"
#include "framework/collective/staged.h"

namespace belfry {
namespace {

using Events = std::vector<std::unique_ptr<Event>>;

// A run has these parts, with a meeting of the participants of this process after each. Slice q of the elements is
// summed by process q.
// 1. All arrive: the ranks' data is final. For WorldSum::kProcesses each participant sums a part of it.
// 2. Participant 0 sends the slices of this process's ranks, or of their sum, to the processes that add them up, and
//    receives this process's slice of all others into scratch memory.
// 3. Each participant adds up a part of this process's slice.
// 4. Participant 0 sends the result to all processes, and receives theirs into the data of the first rank.
// 5. Each participant copies them to its other ranks.
// A reduce-scatter ends after part 3. An all-gather has 1, where each participant copies its ranks' slices to the first
// rank, 4 and 5. Slice q is then that of process q's ranks.
// Participant 0's thread waits for other processes where it would otherwise wait for its own, so no further thread is
// needed. What is sent lies where it was computed; only what is received before the sum needs memory of its own.
class WorldCollective final : public Collective {
 public:
  WorldCollective(CollectiveSpec spec, World& world, int tag, const TowersOfWorld& towers, WorldSum sum)
      : spec_(std::move(spec)),
        world_(world),
        tag_(tag),
        processes_(towers),
        gathers_(spec_.kind == CollectiveKind::kAllGather),
        scatters_(spec_.kind == CollectiveKind::kReduceScatter),
        sums_processes_(sum == WorldSum::kProcesses && spec_.kind != CollectiveKind::kBroadcast && !gathers_) {
    for (Device* device : spec_.participants) {
      arrived_.push_back(device->NewEvent());
      summed_.push_back(device->NewEvent());
      done_.push_back(device->NewEvent());
      if (sums_processes_ || gathers_) prepared_.push_back(device->NewEvent());
    }
    received_ = spec_.participants[0]->NewEvent();
    spread_ = spec_.participants[0]->NewEvent();
    PlanWeights();
    if (sums_processes_) {
      PlanSums();
    } else if (!gathers_) {
      PlanTowers();
    }
    if (!scatters_) PlanResults();
  }

  absl::Status Run(int participant, Stream& stream, uint32_t run, absl::Time deadline) override {
    RETURN_IF_ERROR(Meet(arrived_, participant, stream, run, deadline));
    if (!prepared_.empty()) {
      Prepare(participant);
      RETURN_IF_ERROR(Meet(prepared_, participant, stream, run, deadline));
    }
    absl::Status status;
    if (!gathers_) RETURN_IF_ERROR(Reduce(participant, stream, run, deadline, status));
    if (!scatters_) RETURN_IF_ERROR(Spread(participant, stream, run, deadline));
    RETURN_IF_ERROR(Meet(done_, participant, stream, run, deadline));
    return status;
  }

  void Cancel() override {
    cancelled_ = true;
    ForEachEvent([](Event& event) { event.Cancel(); });
  }

  void Reset(uint32_t run) override {
    cancelled_ = false;
    ForEachEvent([run](Event& event) { event.Reset(run); });
  }

 private:
  void Prepare(int participant) {
    if (sums_processes_) {
      const CollectivePart part = PartOf(spec_, participant);
      return SumOnHost(spec_, part.begin, part.end, scratch_.data());
    }
    for (size_t i = 0; i < spec_.ranks.size(); ++i) {
      const CollectiveRank& rank = spec_.ranks[i];
      if (rank.participant == participant) Copy(rank.data, first_, SliceOfRank(spec_, spec_.first + i));
    }
  }

  // Parts 2 and 3. `sum` is the error of the sum, which is the same in all processes, since the weights are; so the
  // others are waited for all the same.
  absl::Status Reduce(int participant, Stream& stream, uint32_t run, absl::Time deadline, absl::Status& sum) {
    if (participant == 0) {
      for (size_t i = 0; i < spec_.ranks.size() && !weights_.empty(); ++i) {
        weights_[spec_.first + i] = *spec_.ranks[i].weight;
      }
      RETURN_IF_ERROR(Exchange(gather_, deadline));
      stream.Record(*received_, run);
    } else {
      RETURN_IF_ERROR(stream.Wait(*received_, run, deadline));
    }
    sum = AddUp(participant);
    return Meet(summed_, participant, stream, run, deadline);
  }

  // Parts 4 and 5.
  absl::Status Spread(int participant, Stream& stream, uint32_t run, absl::Time deadline) {
    if (participant == 0) {
      RETURN_IF_ERROR(Exchange(spread_out_, deadline));
      stream.Record(*spread_, run);
    } else {
      RETURN_IF_ERROR(stream.Wait(*spread_, run, deadline));
    }
    CopyFromFirst(participant);
    return absl::OkStatus();
  }

  char* At(void* data, int64_t element) const {
    return static_cast<char*>(data) + element * static_cast<int64_t>(SizeOf(spec_.dtype));
  }
  absl::Span<char> Bytes(void* data, int64_t elements) const {
    return {static_cast<char*>(data), static_cast<size_t>(elements) * SizeOf(spec_.dtype)};
  }
  ElementRange SliceOf(int process) const {
    if (gathers_ || scatters_) {
      return {SliceOfRank(spec_, processes_.first[process]).begin,
              SliceOfRank(spec_, processes_.first[process + 1]).begin};
    }
    const int64_t processes = world_.size();
    return {spec_.elements * process / processes, spec_.elements * (process + 1) / processes};
  }
  // Whether a rank's data counts.
  bool Counts(int64_t rank) const { return spec_.kind != CollectiveKind::kBroadcast || rank == 0; }

  // Calls plan(to, from) for the other processes, neighbours first, so that not all send to the same one at the same
  // time.
  template <class F>
  void ForEachPair(const F& plan) const {
    const int own = world_.rank(), size = world_.size();
    for (int step = 1; step < size; ++step) plan((own + step) % size, (own + size - step) % size);
  }

  static absl::Span<char> FloatBytes(float* data, int64_t elements) {
    return {reinterpret_cast<char*>(data), static_cast<size_t>(elements) * sizeof(float)};
  }

  void PlanWeights() {
    own_ = SliceOf(world_.rank());
    first_ = spec_.ranks[0].data;
    if (!spec_.averages()) return;
    weights_.resize(spec_.size);
    float* const mine = &weights_[spec_.first];
    const auto local = static_cast<int64_t>(spec_.ranks.size());
    ForEachPair([&](int to, int from) {
      gather_.Send(to, FloatBytes(mine, local));
      gather_.Receive(from, FloatBytes(&weights_[processes_.first[from]], processes_.count(from)));
    });
  }

  // The slices of all towers.
  void PlanTowers() {
    const auto local = static_cast<int64_t>(spec_.ranks.size());
    const size_t size = SizeOf(spec_.dtype);
    scratch_.resize(static_cast<size_t>((spec_.size - local) * own_.size()) * size);
    all_.resize(spec_.size);
    char* free = scratch_.data();
    for (int64_t rank = 0; rank < spec_.size; ++rank) {
      const float* const weight = weights_.empty() ? nullptr : &weights_[rank];
      if (rank >= spec_.first && rank < spec_.first + local) {
        all_[rank] = {.data = At(spec_.ranks[rank - spec_.first].data, own_.begin), .weight = weight};
      } else {
        all_[rank] = {.data = free, .weight = weight};
        free += own_.size() * static_cast<int64_t>(size);
      }
    }
    ForEachPair([&](int to, int from) {
      const ElementRange theirs = SliceOf(to);
      for (int64_t i = 0; i < local; ++i) {
        if (Counts(spec_.first + i)) gather_.Send(to, Bytes(At(spec_.ranks[i].data, theirs.begin), theirs.size()));
      }
      for (int64_t rank = processes_.first[from]; rank < processes_.first[from + 1]; ++rank) {
        if (Counts(rank)) gather_.Receive(from, Bytes(all_[rank].data, own_.size()));
      }
    });
  }

  // The slices of all processes' sums. The scratch memory has this process's sum of all elements, then the slices.
  void PlanSums() {
    const auto size = static_cast<int64_t>(AccumulatorSize(spec_.dtype));
    const auto bytes = [&](int64_t at, int64_t elements) {
      return absl::MakeSpan(scratch_.data() + at * size, static_cast<size_t>(elements * size));
    };
    scratch_.resize(static_cast<size_t>((spec_.elements + (world_.size() - 1) * own_.size()) * size));
    sums_.resize(world_.size());
    int64_t free = spec_.elements;
    for (int process = 0; process < world_.size(); ++process) {
      const int64_t at = process == world_.rank() ? own_.begin : free;
      sums_[process] = scratch_.data() + at * size;
      if (process != world_.rank()) free += own_.size();
    }
    ForEachPair([&](int to, int from) {
      const ElementRange theirs = SliceOf(to);
      gather_.Send(to, bytes(theirs.begin, theirs.size()));
      gather_.Receive(from, {static_cast<char*>(sums_[from]), static_cast<size_t>(own_.size() * size)});
    });
  }

  void PlanResults() {
    ForEachPair([&](int to, int from) {
      const ElementRange received = SliceOf(from);
      spread_out_.Send(to, Bytes(At(first_, own_.begin), own_.size()));
      spread_out_.Receive(from, Bytes(At(first_, received.begin), received.size()));
    });
  }

  // Writes a participant's part of this process's slice to all ranks of this process.
  absl::Status AddUp(int participant) {
    const auto parts = static_cast<int64_t>(spec_.participants.size());
    const int64_t begin = own_.size() * participant / parts, end = own_.size() * (participant + 1) / parts;
    if (!sums_processes_) return ReduceOnHost(spec_, all_, spec_.first, spec_.ranks.size(), begin, end);
    double divisor = 1;
    if (spec_.averages()) {
      divisor = 0;
      for (const float weight : weights_) divisor += weight;
      if (!(divisor > 0)) {
        return absl::InvalidArgumentError(absl::StrCat("collective '", spec_.name, "': the towers' weights add up to ",
                                                       divisor, "; no tower has an example"));
      }
    }
    AddSumsOnHost(spec_, sums_, own_.begin, divisor, own_.begin + begin, own_.begin + end);
    return absl::OkStatus();
  }

  // Called by the thread of participant 0 only. Where that shares a core with the thread that computes, it would
  // otherwise begin milliseconds late, and a network would rest as long each time that data arrives. Within a machine
  // the other process would only be interrupted more often: 0.91 instead of 0.98 of the speed of one process.
  absl::Status Exchange(Transfers& transfers, absl::Time deadline) {
    if (std::exchange(is_first_exchange_, false) && world_.several_machines()) UseShortTimeSlices();
    const absl::Status status =
        world_.Exchange(tag_, transfers, deadline, [this] { return cancelled_.load(std::memory_order_relaxed); });
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat("collective '", spec_.name, "': ", status.message()));
  }

  void Copy(void* from, void* to, const ElementRange& range) const {
    if (from == to || range.size() == 0) return;
    std::memcpy(At(to, range.begin), At(from, range.begin), static_cast<size_t>(range.size()) * SizeOf(spec_.dtype));
  }

  // The slices of other processes, from the first rank to the participant's.
  void CopyFromFirst(int participant) {
    for (const CollectiveRank& rank : spec_.ranks) {
      if (rank.participant != participant) continue;
      Copy(first_, rank.data, {0, own_.begin});
      if (gathers_) Copy(first_, rank.data, own_);  // the sum is there in all ranks, other ranks' slices are not
      Copy(first_, rank.data, {own_.end, spec_.elements});
    }
  }

  static absl::Status Meet(const Events& events, int participant, Stream& stream, uint32_t run, absl::Time deadline) {
    stream.Record(*events[participant], run);
    for (const auto& event : events) RETURN_IF_ERROR(stream.Wait(*event, run, deadline));
    return absl::OkStatus();
  }

  template <class F>
  void ForEachEvent(const F& apply) {
    for (Events* events : {&arrived_, &prepared_, &summed_, &done_}) {
      for (auto& event : *events) apply(*event);
    }
    apply(*received_);
    apply(*spread_);
  }

  const CollectiveSpec spec_;
  World& world_;
  const int tag_;
  const TowersOfWorld processes_;
  const bool gathers_, scatters_;
  ElementRange own_;       // of this process
  void* first_ = nullptr;  // data of the first rank of this process
  const bool sums_processes_;
  std::vector<CollectiveRank> all_;  // for kTowers: those of all processes; their data begins with own_
  std::vector<void*> sums_;          // for kProcesses: those of all processes, by process
  std::vector<float> weights_;       // by rank; empty unless for a mean
  std::vector<char> scratch_;
  Transfers gather_, spread_out_;
  Events arrived_, prepared_, summed_, done_;  // one per participant; prepared_ only if there is something to prepare
  std::unique_ptr<Event> received_, spread_;
  bool is_first_exchange_ = true;
  std::atomic<bool> cancelled_{false};
};

}  // namespace

absl::StatusOr<TowersOfWorld> TowersOfWorld::Gather(World& world, int mine, absl::Time deadline) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, world.AllGather(absl::StrCat(mine), deadline));
  TowersOfWorld towers{{0}};
  for (const std::string& text : texts) {
    int count = 0;
    if (!absl::SimpleAtoi(text, &count)) return absl::InternalError("a process sent no number of towers");
    towers.first.push_back(towers.first.back() + count);
  }
  return towers;
}

absl::Status TowersOfWorld::Check(const CollectiveSpec& spec, int process) const {
  if (spec.size == total() && spec.first == first[process] && static_cast<int>(spec.ranks.size()) == count(process)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "collective '", spec.name, "': this process has towers ", spec.first, " to ", spec.first + spec.ranks.size() - 1,
      " of ", spec.size, ", but should have ", first[process], " to ", first[process + 1] - 1, " of ", total()));
}

CollectiveFactory WorldCollectives(World& world, const TowersOfWorld& towers, WorldSum sum) {
  // One tag for all: they run one after the other, in the same order in all processes. A process may make some of them
  // earlier than another, for a batch whose shapes are new to it alone, so a tag of its own for each would not agree.
  return
      [&world, towers, sum, tag = world.NewTag()](CollectiveSpec spec) -> absl::StatusOr<std::unique_ptr<Collective>> {
        if (!spec.spans_processes()) return MakeLocalCollective(std::move(spec));
        RETURN_IF_ERROR(CheckDType(spec));
        RETURN_IF_ERROR(towers.Check(spec, world.rank()));
        const auto on_cpus = [&](CollectiveSpec of) -> absl::StatusOr<std::unique_ptr<Collective>> {
          return std::make_unique<WorldCollective>(std::move(of), world, tag, towers, sum);
        };
        const bool cpus = std::all_of(spec.participants.begin(), spec.participants.end(),
                                      [](const Device* device) { return device->type() == "CPU"; });
        return cpus ? on_cpus(std::move(spec)) : MakeStagedCollective(std::move(spec), on_cpus);
      };
}

}  // namespace belfry
