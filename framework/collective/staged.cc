#include "framework/collective/staged.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/status.h"
#include "framework/device/cpu/cpu_device.h"

namespace belfry {
namespace {

// The host's stand-in for one GPU.
struct Stage {
  std::unique_ptr<Device> host;
  std::unique_ptr<Stream> stream;  // of `host`
  std::unique_ptr<Event> copied;   // the GPU's: the data of its ranks is in `memory`
  DeviceMemory memory;             // for each of its ranks the elements, then the weight
};

// Invariant: a participant's host memory is written by copies of its own stream and, between them, by the collective of
// the hosts. That begins a run once all participants have come, each after the copy of its new data and so after the
// copy of its last result. No participant therefore writes what another one's copy still reads.
class StagedCollective final : public Collective {
 public:
  // `hosts`: the participants and ranks of `on_hosts`.
  StagedCollective(CollectiveSpec gpus, CollectiveSpec hosts, std::vector<Stage> stages,
                   std::unique_ptr<Collective> on_hosts)
      : gpus_(std::move(gpus)),
        hosts_(std::move(hosts)),
        bytes_(static_cast<size_t>(gpus_.elements) * SizeOf(gpus_.dtype)),
        stages_(std::move(stages)),
        on_hosts_(std::move(on_hosts)) {}

  absl::Status Run(int participant, Stream& stream, uint32_t run, absl::Time deadline) override {
    const Stage& stage = stages_[participant];
    RETURN_IF_ERROR(CopyIn(participant, stream));
    stream.Record(*stage.copied, run);
    absl::Status status = stage.copied->Wait(run, deadline);
    if (absl::IsDeadlineExceeded(status)) {
      return absl::DeadlineExceededError(absl::StrCat("collective '", gpus_.name,
                                                      "': ", gpus_.participants[participant]->name().ToString(),
                                                      " has not come to it before the deadline of the step"));
    }
    status.Update(stream.Error());
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(on_hosts_->Run(participant, *stage.stream, run, deadline));
    return CopyOut(participant, stream);
  }

  void Cancel() override {
    for (const Stage& stage : stages_) stage.copied->Cancel();
    on_hosts_->Cancel();
  }

  void Reset(uint32_t run) override {
    for (const Stage& stage : stages_) stage.copied->Reset(run);
    on_hosts_->Reset(run);
  }

  absl::Status Check(bool give_up) override { return on_hosts_->Check(give_up); }
  uint64_t aborts() const override { return on_hosts_->aborts(); }

 private:
  // Whether the collective needs the data of rank i of this process.
  bool Counts(size_t i) const { return gpus_.kind != CollectiveKind::kBroadcast || gpus_.first + i == 0; }

  absl::Status CopyIn(int participant, Stream& stream) {
    const Device &gpu = *gpus_.participants[participant], &host = *hosts_.participants[participant];
    for (size_t i = 0; i < gpus_.ranks.size(); ++i) {
      const CollectiveRank &from = gpus_.ranks[i], &to = hosts_.ranks[i];
      if (from.participant != participant || !Counts(i)) continue;
      RETURN_IF_ERROR(stream.Copy(to.data, host, from.data, gpu, bytes_));
      if (!gpus_.averages()) continue;
      RETURN_IF_ERROR(stream.Copy(const_cast<float*>(to.weight), host, from.weight, gpu, sizeof(float)));
    }
    return absl::OkStatus();
  }

  absl::Status CopyOut(int participant, Stream& stream) {
    const Device &gpu = *gpus_.participants[participant], &host = *hosts_.participants[participant];
    for (size_t i = 0; i < gpus_.ranks.size(); ++i) {
      const CollectiveRank &to = gpus_.ranks[i], &from = hosts_.ranks[i];
      if (to.participant == participant) RETURN_IF_ERROR(stream.Copy(to.data, gpu, from.data, host, bytes_));
    }
    return absl::OkStatus();
  }

  const CollectiveSpec gpus_, hosts_;
  const size_t bytes_;               // of a rank
  const std::vector<Stage> stages_;  // by participant
  const std::unique_ptr<Collective> on_hosts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> MakeStagedCollective(CollectiveSpec spec,
                                                                 const CollectiveFactory& on_hosts) {
  for (const Device* device : spec.participants) {
    if (device->type() == "GPU") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("collective '", spec.name, "': the averagers local and mpi work among CPU devices or among GPUs, ",
                     "not between ", spec.participants[0]->name().ToString(), " and ", device->name().ToString()));
  }
  // A place has the elements of a rank, then its weight.
  const size_t elements = AlignUp(static_cast<size_t>(spec.elements) * SizeOf(spec.dtype));
  const size_t place = elements + AlignUp(sizeof(float));
  const int participants = static_cast<int>(spec.participants.size());
  std::vector<std::unique_ptr<Device>> devices =
      OpenCpuDevices(participants, {.cpu_threads = 1, .bind_threads = false});
  CollectiveSpec hosts = spec;
  std::vector<Stage> stages(participants);
  for (int p = 0; p < participants; ++p) {
    Stage& stage = stages[p];
    stage.host = std::move(devices[p]);
    hosts.participants[p] = stage.host.get();
    ASSIGN_OR_RETURN(stage.stream, stage.host->NewStream(StreamKind::kCollective));
    stage.copied = spec.participants[p]->NewEvent();
    size_t ranks = 0;
    for (const CollectiveRank& rank : spec.ranks) ranks += rank.participant == p;
    ASSIGN_OR_RETURN(stage.memory, DeviceMemory::AllocateHost(*spec.participants[p], ranks * place));
    auto* at = static_cast<std::byte*>(stage.memory.data());
    for (CollectiveRank& rank : hosts.ranks) {
      if (rank.participant != p) continue;
      rank.data = at;
      rank.weight = reinterpret_cast<const float*>(at + elements);
      at += place;
    }
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Collective> made, on_hosts(hosts));
  return std::make_unique<StagedCollective>(std::move(spec), std::move(hosts), std::move(stages), std::move(made));
}

}  // namespace belfry
