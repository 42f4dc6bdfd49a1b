// Averaging and broadcasting between the devices of a plan.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/dtype.h"
#include "framework/collective/recording.h"
#include "framework/device/device.h"

namespace belfry {

// One tower's part in a collective: where its data lies, in the memory of the participant that it belongs to. Fixed for
// the life of a plan.
struct CollectiveRank {
  int participant = 0;            // index of its device among the collective's
  void* data = nullptr;           // `elements` elements, replaced by the result
  const float* weight = nullptr;  // one value, read when the collective runs: this tower's share in the mean
};

enum class CollectiveKind {
  kMean,       // every rank gets sum(weight_r * data_r) / sum(weight_r)
  kSum,        // every rank gets sum(data_r); weights do not count
  kBroadcast,  // every rank gets rank 0's data
};

struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::kMean;
  std::string name;  // for errors
  DType dtype = DType::kFloat32;
  int64_t elements = 0;
  std::vector<Device*> participants;  // borrowed, distinct, in ascending order of their first rank
  std::vector<CollectiveRank> ranks;  // ascending tower order
};

// One collective of a plan, met once per run by every participant, each on a thread and stream of its own. All
// participants meet the collectives of a plan in the same order.
class Collective {
 public:
  virtual ~Collective() = default;
  // Called by each participant once per run, with run numbers that count up and a stream of its device. What follows on
  // the stream begins once this participant's ranks hold the result and nobody reads or writes their data any more; on
  // a CPU device that is when the call returns. Errors: Cancelled after Cancel(), DeadlineExceeded, and on a CPU device
  // InvalidArgument if all weights of a mean are zero, which on a GPU gives NaN. Does not allocate and takes no lock.
  virtual absl::Status Run(int participant, Stream& stream, uint32_t run, absl::Time deadline) = 0;
  // False if it never can be part of a recorded step. Then the next three are not called.
  virtual bool CanRecord() const { return false; }
  // Between these two a step is recorded, by one thread, and nobody is in Run. Begin: false if not now, after a failure
  // elsewhere; after the next Run it may be asked again. End: `recording` is what came of it; null if nothing did, and
  // what there was is gone. Then comes Reset.
  virtual bool BeginRecording() { return true; }
  virtual void EndRecording(const std::shared_ptr<Recording>& /*recording*/) {}
  // Run for all participants: streams[i] is participant i's, and records. After an error the recording is of no use.
  virtual absl::Status RunAll(absl::Span<Stream* const> /*streams*/, uint32_t /*run*/, absl::Time /*deadline*/) {
    return absl::UnimplementedError("this collective cannot be recorded");
  }
  // Wakes every waiting participant, now and until Reset, with Cancelled. Any thread.
  virtual void Cancel() = 0;
  // As if `run` had just been met by all. REQUIRES: nobody is in Run.
  virtual void Reset(uint32_t run) = 0;
  // Asked now and then by who waits for a device that runs this collective: what went wrong after Run had returned.
  // After a failure, or if `give_up` and it is not done by now, it is ended on all devices, so that nothing there waits
  // for ever; that is an error, and what the runs under way computed is lost. REQUIRES: nobody is in Run.
  virtual absl::Status Check(bool /*give_up*/) { return absl::OkStatus(); }
  // How often that has happened, whoever asked. Counted before any of it ends. Any thread.
  virtual uint64_t losses() const { return 0; }
};

// How the collectives of a session are made.
using CollectiveFactory = std::function<absl::StatusOr<std::unique_ptr<Collective>>(CollectiveSpec)>;

// One participant's share of the work of a collective.
struct CollectivePart {
  int participant = 0;
  int64_t begin = 0, end = 0;  // elements of the result
};
inline CollectivePart PartOf(const CollectiveSpec& spec, int participant) {
  const auto parts = static_cast<int64_t>(spec.participants.size());
  return {participant, spec.elements * participant / parts, spec.elements * (participant + 1) / parts};
}
// Computes a part of a collective's result for all ranks, on a stream of the participant, once all participants are
// there.
using CollectiveSlice = std::function<absl::Status(const CollectiveSpec&, const CollectivePart&, Stream&)>;

// The averager `local`, among CPU devices or among GPUs; several ranks may share a device. Each participant computes
// one slice of the result for everybody, element by element in ascending rank order, so that the bits depend neither on
// the kind or number of participants, nor on how ranks are spread over them, nor on bucket sizes or threads. A rank of
// weight 0 (a tower without examples) does not take part in a mean, whatever its data holds. GPUs that do not reach
// each other's memory copy what they need of it; the first run sets up the copies. Errors: InvalidArgument for
// participants of different kinds and for what cannot be averaged, ResourceExhausted.
absl::StatusOr<std::unique_ptr<Collective>> MakeLocalCollective(CollectiveSpec spec);
// The same with the slices of another kind of device.
absl::StatusOr<std::unique_ptr<Collective>> MakeSlicedCollective(CollectiveSpec spec, CollectiveSlice slice);

// The slices of CPU devices.
absl::Status ReduceOnHost(const CollectiveSpec& spec, int64_t begin, int64_t end);

}  // namespace belfry
