// Averaging and broadcasting between the devices of a plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/dtype.h"
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
  // Called by each participant once per run, with run numbers that count up. Returns once this participant's ranks hold
  // the result and nobody reads or writes their data any more. Errors: Cancelled after Cancel(), DeadlineExceeded,
  // InvalidArgument if all weights of a mean are zero. Does not allocate and takes no lock.
  virtual absl::Status Run(int participant, uint32_t run, absl::Time deadline) = 0;
  // Wakes every waiting participant, now and until Reset, with Cancelled. Any thread.
  virtual void Cancel() = 0;
  // As if `run` had just been met by all. REQUIRES: nobody is in Run.
  virtual void Reset(uint32_t run) = 0;
};

// Among CPU devices, through memory that all can read. Each participant computes one slice of the result for everybody,
// element by element in ascending rank order, so that the bits depend neither on the number of participants, nor on how
// ranks are spread over them, nor on bucket sizes or threads. A rank of weight 0 (a tower without examples) does not
// take part in a mean, whatever its data holds.
absl::StatusOr<std::unique_ptr<Collective>> MakeLocalCollective(CollectiveSpec spec);

}  // namespace belfry
