#include "framework/collective/nccl.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/collective/gpu_module.h"
#include "framework/device/cpu/cpu_event.h"

namespace belfry {
namespace {

class NcclCollective final : public Collective {
 public:
  // `ranks`: each participant's rank in the clique. `totals`: one float on each participant's device.
  NcclCollective(CollectiveSpec spec, std::shared_ptr<NcclClique> clique, std::vector<int> ranks,
                 std::vector<DeviceMemory> totals)
      : spec_(std::move(spec)),
        clique_(std::move(clique)),
        clique_ranks_(std::move(ranks)),
        totals_(std::move(totals)),
        number_(clique_->AddCollective(spec_.name)),
        arrived_(std::make_unique<CpuEvent[]>(spec_.participants.size())) {}

  absl::Status Run(int participant, Stream& stream, uint32_t run, absl::Time deadline) override {
    absl::Status status = Meet(participant, run, deadline);
    if (status.ok()) status = Enqueue(participant, stream, deadline);
    if (!status.ok()) Fail(status);
    return status;
  }

  bool CanCapture() const override { return !spec_.spans_processes(); }

  // A capture holds a Use until it ends, so that nobody aborts the communicators meanwhile: the abort would wait for
  // the capture to end.
  bool BeginCapture() override {
    capture_.emplace(*clique_, 0);
    if (!clique_->stopped()) return true;
    capture_->Done();
    capture_.reset();
    return false;
  }

  absl::Status RunAll(absl::Span<Stream* const> streams, uint32_t /*run*/, absl::Time deadline) override {
    if (spec_.elements == 0) return absl::OkStatus();
    const absl::Status status = DoAll(
        [&](Give give) {
          return capture_->Capture(deadline, [&](NcclApi& api, int rank, NcclComm* comm) {
            const int participant = ParticipantOf(rank);
            return (this->*give)(api, participant, comm, *streams[participant]);
          });
        },
        [&](Kernel kernel) {
          for (size_t p = 0; p < streams.size(); ++p) {
            RETURN_IF_ERROR((this->*kernel)(static_cast<int>(p), *streams[p]));
          }
          return absl::OkStatus();
        });
    if (status.ok()) return status;
    // Only marked here: EndCapture stops the clique, once the streams no longer capture.
    spoiled_ = true;
    return absl::Status(status.code(), absl::StrCat("collective '", spec_.name, "': ", status.message()));
  }

  void EndCapture(const std::shared_ptr<CapturedStep>& step) override {
    // Known to the clique before this Use leaves, so that no abort can overlook it.
    if (step != nullptr) clique_->Follow(step);
    // Without Done() the Use leaves as suspect, and Fail then aborts the communicators.
    if (!spoiled_) capture_->Done();
    capture_.reset();
    if (std::exchange(spoiled_, false)) Fail(absl::CancelledError("a step could not be captured"));
  }

  void Cancel() override { Fail(absl::CancelledError("the step was cancelled")); }

  void Reset(uint32_t run) override {
    for (size_t p = 0; p < spec_.participants.size(); ++p) arrived_[p].Reset(run);
    clique_->Resume();
  }

  uint64_t aborts() const override { return clique_->aborts(); }

  absl::Status Check(bool give_up) override {
    int rank = 0;
    const absl::Status status = clique_->Check(give_up, rank);
    if (status.ok() || rank < 0) return status;
    return absl::Status(
        status.code(),
        absl::StrCat("tower ", Tower(ParticipantOf(rank)), " on ", clique_->device(rank).name().ToString(), ": ",
                     status.message(), "; the last collective issued to it was ", clique_->LastCollective(rank)));
  }

 private:
  // The number of a participant's tower among those of all processes.
  int Tower(size_t participant) const { return spec_.first + static_cast<int>(participant); }

  absl::Status Named(const absl::Status& status, int participant) const {
    return absl::Status(status.code(),
                        absl::StrCat("collective '", spec_.name, "', tower ", Tower(participant), " on ",
                                     spec_.participants[participant]->name().ToString(), ": ", status.message()));
  }

  // Any failure stops all participants: `arrived_` wakes those that wait here, the clique those inside NCCL.
  void Fail(const absl::Status& status) {
    clique_->Stop(status);
    for (size_t p = 0; p < spec_.participants.size(); ++p) arrived_[p].Cancel();
  }

  // All threads meet here before any hands its part to NCCL. So a tower that fails or hangs before the collective
  // leaves nothing half-launched behind, nobody fills the launch queues that others need, and NCCL never runs a
  // collective on one GPU while another GPU's thread still allocates for the previous one.
  absl::Status Meet(int participant, uint32_t run, absl::Time deadline) {
    if (participant == 0) {
      if (absl::Status status = clique_->Prepare(deadline); !status.ok()) return Named(status, participant);
    }
    // Checks that all ranks meet the same collective. A different order would make NCCL hang or average unrelated data.
    // The meeting costs a few atomics and one wait per participant, and no lock.
    if (absl::Status status = clique_->Claim(clique_ranks_[participant], number_); !status.ok()) {
      return clique_->stopped() ? clique_->Why() : Named(status, participant);
    }
    arrived_[participant].Record(run);
    for (size_t p = 0; p < spec_.participants.size(); ++p) {
      const absl::Status status = arrived_[p].Wait(run, deadline);
      if (absl::IsCancelled(status)) return clique_->Why();
      if (absl::IsDeadlineExceeded(status)) return Missing(participant, run);
    }
    return absl::OkStatus();
  }

  // The error at a deadline, which names the towers that have not arrived.
  absl::Status Missing(int participant, uint32_t run) {
    std::vector<std::string> missing;
    for (size_t p = 0; p < spec_.participants.size(); ++p) {
      const absl::Status there = arrived_[p].Wait(run, absl::InfinitePast());
      if (absl::IsCancelled(there)) return clique_->Why();
      if (there.ok()) continue;
      missing.push_back(absl::StrCat("tower ", Tower(p), " on ", spec_.participants[p]->name().ToString()));
    }
    const std::string who = missing.empty() ? "none (the last one arrived just then)" : absl::StrJoin(missing, ", ");
    return Named(absl::DeadlineExceededError(absl::StrCat("the step exceeded its deadline; missing: ", who)),
                 participant);
  }

  absl::Status Enqueue(int participant, Stream& stream, absl::Time deadline) {
    if (spec_.elements == 0) return absl::OkStatus();
    // While `use` lives, nobody aborts the communicators. Leaving without Done() says that this rank may have been
    // given only a part of the collective, so the communicators cannot be trusted again.
    NcclClique::Use use(*clique_, clique_ranks_[participant]);
    absl::Status status = use.Begin(deadline);
    if (status.ok()) {
      status = DoAll(
          [&](Give give) {
            return use.Group(stream, deadline, [&](NcclApi& api, NcclComm* comm) {
              return (this->*give)(api, participant, comm, stream);
            });
          },
          [&](Kernel kernel) { return (this->*kernel)(participant, stream); });
    }
    // If another tower failed first, its error is the one to report.
    if (!status.ok()) return clique_->stopped() ? clique_->Why() : Named(status, participant);
    use.Done();
    return absl::OkStatus();
  }

  // The calls that a participant adds to an NCCL group, and the kernels that it runs on its stream between groups.
  using Give = NcclResult (NcclCollective::*)(NcclApi&, int, NcclComm*, Stream&);
  using Kernel = absl::Status (NcclCollective::*)(int, Stream&);

  // A mean is sum(weight * data) / sum(weight). Scaling first needs one group for both sums. float16 would overflow in
  // the products, so there the weights are summed first, and data is scaled by weight / total, which is at most 1, at
  // the cost of a second group. The result has no division left to do.
  absl::Status DoAll(absl::FunctionRef<absl::Status(Give)> group, absl::FunctionRef<absl::Status(Kernel)> run) {
    if (!spec_.averages()) return group(&NcclCollective::GiveData);
    if (spec_.dtype == DType::kFloat16) {
      RETURN_IF_ERROR(group(&NcclCollective::GiveWeight));
      RETURN_IF_ERROR(run(&NcclCollective::ScaleByShare));
      return group(&NcclCollective::GiveData);
    }
    RETURN_IF_ERROR(run(&NcclCollective::Scale));
    RETURN_IF_ERROR(group(&NcclCollective::GiveBoth));
    return run(&NcclCollective::Divide);
  }

  NcclResult GiveData(NcclApi& api, int participant, NcclComm* comm, Stream& stream) {
    void* const data = spec_.ranks[participant].data;
    const ElementRange slice = SliceOfRank(spec_, spec_.first + participant);
    void* const own = Element(participant, slice.begin);
    switch (spec_.kind) {
      case CollectiveKind::kMean:
      case CollectiveKind::kSum: return api.AllReduceSum(data, data, spec_.elements, spec_.dtype, *comm, stream);
      case CollectiveKind::kReduceScatter:
        return api.ReduceScatterSum(data, own, slice.size(), spec_.dtype, *comm, stream);
      case CollectiveKind::kAllGather: return api.AllGather(own, data, slice.size(), spec_.dtype, *comm, stream);
      case CollectiveKind::kBroadcast: break;
    }
    const size_t bytes = static_cast<size_t>(spec_.elements) * SizeOf(spec_.dtype);
    // In a clique of all processes, tower r is rank r.
    return api.Broadcast(data, data, bytes, spec_.spans_processes() ? 0 : clique_ranks_[0], *comm, stream);
  }
  NcclResult GiveWeight(NcclApi& api, int participant, NcclComm* comm, Stream& stream) {
    return api.AllReduceSum(spec_.ranks[participant].weight, total(participant), 1, DType::kFloat32, *comm, stream);
  }
  NcclResult GiveBoth(NcclApi& api, int participant, NcclComm* comm, Stream& stream) {
    const NcclResult weight = GiveWeight(api, participant, comm, stream);
    return Failed(weight) ? weight : GiveData(api, participant, comm, stream);
  }
  absl::Status Scale(int participant, Stream& stream) {
    const CollectiveRank& rank = spec_.ranks[participant];
    return CollectivesOnGpus().scale_by_weight(stream, spec_.dtype, spec_.elements, rank.data, rank.weight, nullptr);
  }
  absl::Status ScaleByShare(int participant, Stream& stream) {
    const CollectiveRank& rank = spec_.ranks[participant];
    return CollectivesOnGpus().scale_by_weight(stream, spec_.dtype, spec_.elements, rank.data, rank.weight,
                                               total(participant));
  }
  absl::Status Divide(int participant, Stream& stream) {
    const bool all = spec_.kind == CollectiveKind::kMean;
    const ElementRange kept = all ? ElementRange{0, spec_.elements} : SliceOfRank(spec_, spec_.first + participant);
    return CollectivesOnGpus().divide_by_total(stream, spec_.dtype, kept.size(), Element(participant, kept.begin),
                                               total(participant));
  }

  void* Element(int participant, int64_t i) const {
    return static_cast<char*>(spec_.ranks[participant].data) + i * static_cast<int64_t>(SizeOf(spec_.dtype));
  }
  float* total(int participant) const { return static_cast<float*>(totals_[participant].data()); }
  int ParticipantOf(int rank) const {
    return static_cast<int>(std::find(clique_ranks_.begin(), clique_ranks_.end(), rank) - clique_ranks_.begin());
  }

  const CollectiveSpec spec_;
  const std::shared_ptr<NcclClique> clique_;
  const std::vector<int> clique_ranks_;
  const std::vector<DeviceMemory> totals_;
  const uint32_t number_;
  const std::unique_ptr<CpuEvent[]> arrived_;  // by participant
  std::optional<NcclClique::Use> capture_;     // set while a step is being captured
  bool spoiled_ = false;                       // true after a failure during the capture
};

}  // namespace

absl::Status CheckNcclDevices(absl::Span<Device* const> devices) {
  std::set<int> cards;
  for (const Device* device : devices) {
    if (device->type() != "GPU") {
      return absl::InvalidArgumentError(absl::StrCat("NCCL averages among GPUs, but ", device->name().ToString(),
                                                     " is not one; use --averager=local"));
    }
    if (cards.insert(device->physical_id()).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("NCCL needs a card for each tower, but ", device->name().ToString(),
                                                   " shares its card with another device; use --averager=local"));
  }
  return absl::OkStatus();
}

// Collectives among the same devices get one clique, in whatever order they name them, because two cliques among the
// same GPUs could deadlock (nccl_clique.h).
absl::StatusOr<std::shared_ptr<NcclClique>> NcclCollectives::CliqueAmong(const CollectiveSpec& spec) {
  std::vector<Device*> key = spec.participants;
  std::sort(key.begin(), key.end());
  const MutexLock lock(mutex_);
  std::shared_ptr<NcclClique> clique = cliques_[key].lock();
  if (clique == nullptr) {
    ASSIGN_OR_RETURN(clique, NcclClique::Create(api_, spec.participants, options_));
    cliques_[key] = clique;
  }
  return clique;
}

// Kept even without collectives: this process may drop its last one, for memory, when the others still have theirs, and
// could not meet them again. For the same reason a failure is final.
absl::StatusOr<std::shared_ptr<NcclClique>> NcclCollectives::CliqueOfWorld(const CollectiveSpec& spec) {
  const MutexLock lock(mutex_);
  if (of_world_.ok() && *of_world_ == nullptr) {
    of_world_ = NcclClique::Create(api_, spec.participants, options_, span_);
  }
  if (!of_world_.ok()) return of_world_.status();
  // The broadcast's root is found by its number, so towers may not change places.
  for (size_t p = 0; p < spec.participants.size(); ++p) {
    if (&(*of_world_)->device(static_cast<int>(p)) == spec.participants[p]) continue;
    return absl::InvalidArgumentError(absl::StrCat("tower ", spec.first + p, " is on ",
                                                   spec.participants[p]->name().ToString(),
                                                   ", but on another GPU in earlier collectives"));
  }
  return of_world_;
}

// A clique numbers its ranks by the first collective's order; `ranks` maps this collective's participants to them.
absl::StatusOr<std::unique_ptr<Collective>> NcclCollectives::Make(CollectiveSpec spec) {
  if (span_.world != nullptr) {
    if (!spec.spans_processes()) return MakeLocalCollective(std::move(spec));
    RETURN_IF_ERROR(towers_.Check(spec, span_.world->rank()));
  } else if (spec.spans_processes()) {
    return absl::InvalidArgumentError(absl::StrCat("collective '", spec.name, "': this process has ", spec.ranks.size(),
                                                   " of its ", spec.size,
                                                   " ranks, but NCCL was not given the world of the others"));
  }
  RETURN_IF_ERROR(CheckDType(spec));
  absl::Status fits = CheckNcclDevices(spec.participants);
  if (fits.ok() && spec.ranks.size() != spec.participants.size()) {
    fits = absl::InvalidArgumentError(absl::StrCat("NCCL needs a GPU for each tower, but there are ", spec.ranks.size(),
                                                   " towers on ", spec.participants.size(),
                                                   " GPUs; use --averager=local"));
  }
  if (!fits.ok()) {
    return absl::Status(fits.code(), absl::StrCat("collective '", spec.name, "': ", fits.message()));
  }
  std::vector<DeviceMemory> totals;
  for (Device* device : spec.participants) {
    ASSIGN_OR_RETURN(totals.emplace_back(), DeviceMemory::Allocate(*device, sizeof(float)));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<NcclClique> clique,
                   spec.spans_processes() ? CliqueOfWorld(spec) : CliqueAmong(spec));
  std::vector<int> ranks;
  for (const Device* device : spec.participants) {
    int rank = 0;
    while (&clique->device(rank) != device) ++rank;
    ranks.push_back(rank);
  }
  const bool sliced = spec.kind == CollectiveKind::kReduceScatter || spec.kind == CollectiveKind::kAllGather;
  if (sliced && !spec.spans_processes() && !std::is_sorted(ranks.begin(), ranks.end())) {
    return absl::InvalidArgumentError(
        absl::StrCat("collective '", spec.name,
                     "': slices follow the order of NCCL's ranks, which is that of the "
                     "towers in the first collective among these GPUs, but not in this one"));
  }
  return std::make_unique<NcclCollective>(std::move(spec), std::move(clique), std::move(ranks), std::move(totals));
}

}  // namespace belfry
