// Collectives over the towers of a plan: means, sums, broadcasts, reduce-scatters and all-gathers.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/dtype.h"
#include "framework/collective/capture.h"
#include "framework/device/device.h"

namespace belfry {

// One tower's data in a collective, in the memory of the participant (device) that it belongs to. Fixed for the life of
// a plan.
struct CollectiveRank {
  int participant = 0;            // index of its device among the collective's
  void* data = nullptr;           // `elements` elements, replaced by the result
  const float* weight = nullptr;  // one value, read at each run: the tower's weight in the mean
};

enum class CollectiveKind {
  kMean,       // every rank gets sum(weight_r * data_r) / sum(weight_r)
  kSum,        // every rank gets sum(data_r); weights are ignored
  kBroadcast,  // every rank gets rank 0's data
  // The next two divide the elements into one slice per rank (SliceOfRank).
  kReduceScatter,  // every rank gets its slice of the mean; the rest of its data is lost
  kAllGather,      // every rank gets the slice of each rank from that rank's data
};

struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::kMean;
  std::string name = {};  // for errors
  DType dtype = DType::kFloat32;
  int64_t elements = 0;
  std::vector<Device*> participants = {};  // borrowed, distinct, in ascending order of their first rank
  std::vector<CollectiveRank> ranks = {};  // of this process, in ascending tower order
  int first = 0;                           // the number of ranks[0] among the ranks of all processes
  int size = 0;                            // the number of ranks of all processes; 0: ranks.size()
  bool spans_processes() const { return size > static_cast<int>(ranks.size()); }
  bool averages() const { return kind == CollectiveKind::kMean || kind == CollectiveKind::kReduceScatter; }
};

// Elements [begin, end).
struct ElementRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
// The slice of a rank, of all processes', in a collective with slices. REQUIRES: the number of elements is a multiple
// of the number of ranks, so that all slices are equal.
inline ElementRange SliceOfRank(const CollectiveSpec& spec, int64_t rank) {
  const int64_t size = spec.elements / std::max<int64_t>(spec.size, static_cast<int64_t>(spec.ranks.size()));
  return {size * rank, size * (rank + 1)};
}

// One collective of a plan. Every participant runs it once per run, each on its own thread and stream, and all
// participants run the collectives of a plan in the same order. Deadlines are moments of SteadyNow.
class Collective {
 public:
  virtual ~Collective() = default;
  // Called by each participant once per run, with run numbers that count up and a stream of its device. Later work on
  // the stream begins once this participant's ranks hold the result and no other participant accesses their data; on a
  // CPU device that is when the call returns. Errors: Cancelled after Cancel(), DeadlineExceeded, and on a CPU device
  // InvalidArgument if all weights of a mean are zero (on a GPU the result is NaN). Does not allocate or lock.
  virtual absl::Status Run(int participant, Stream& stream, uint32_t run, absl::Time deadline) = 0;
  // Whether it can be part of a captured step, or run for all participants by one thread. If false, the next three are
  // never called.
  virtual bool CanCapture() const { return false; }
  // Bracket the capture of a step, which one thread makes while no participant is in Run. BeginCapture returns false if
  // the collective cannot be captured now, after a failure elsewhere; it may be asked again after the next Run. `step`
  // is the result of the capture, or null if it failed and its work is gone. The caller then calls Reset.
  virtual bool BeginCapture() { return true; }
  virtual void EndCapture(const std::shared_ptr<CapturedStep>& /*step*/) {}
  // Run for all participants on the calling thread; streams[i] belongs to participant i. After an error a capture under
  // way must be discarded.
  virtual absl::Status RunAll(absl::Span<Stream* const> /*streams*/, uint32_t /*run*/, absl::Time /*deadline*/) {
    return absl::UnimplementedError("this collective cannot be captured");
  }
  // Wakes every waiting participant, now and until Reset, with Cancelled. Thread-safe.
  virtual void Cancel() = 0;
  // Sets the state as if all participants had just finished `run`. REQUIRES: no participant is in Run.
  virtual void Reset(uint32_t run) = 0;
  // Reports errors that occurred after Run returned; a thread that waits for a device running this collective polls it.
  // After a failure, or if `give_up` is set and work is still in flight, the collective is aborted on all devices so
  // that none waits forever; the results of the runs in flight are lost. REQUIRES: no participant is in Run.
  virtual absl::Status Check(bool /*give_up*/) { return absl::OkStatus(); }
  // Number of aborts so far, counted before an abort takes effect. Thread-safe.
  virtual uint64_t aborts() const { return 0; }
};

// Makes the collectives of a session.
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
// Computes one part of a collective's result for all ranks, on a stream of the participant, once every participant has
// arrived.
using CollectiveSlice = std::function<absl::Status(const CollectiveSpec&, const CollectivePart&, Stream&)>;

// The averager `local`, among CPU devices or among GPUs; several ranks may share a device. Each participant computes
// one slice of the result for all, element by element in an order that depends on the number of ranks only, so the bits
// do not depend on the kind or number of participants, on the assignment of ranks to them, on bucket sizes or on
// threads: ranks [k 2^l, (k + 1) 2^l) are added up first, for each l, as the bits of a binary counter carry. A rank of
// weight 0 (a tower without examples) is left out of a mean whatever its data holds. GPUs without peer access copy the
// data they need; the first run sets up the copies. Errors: InvalidArgument for participants of different kinds and
// dtypes that cannot be averaged, ResourceExhausted.
absl::StatusOr<std::unique_ptr<Collective>> MakeLocalCollective(CollectiveSpec spec);
// The same with slices computed by `slice`, for another kind of device.
absl::StatusOr<std::unique_ptr<Collective>> MakeSlicedCollective(CollectiveSpec spec, CollectiveSlice slice);

// Computes elements [begin, end) of a mean, a sum or a broadcast on the host, and writes them to spec.ranks. The mean
// of a reduce-scatter is computed as for kMean.
absl::Status ReduceOnHost(const CollectiveSpec& spec, int64_t begin, int64_t end);
// The same from all of `ranks` instead of spec.ranks, written to `results` of them beginning with `first`. Elements are
// counted from the data of each rank.
absl::Status ReduceOnHost(const CollectiveSpec& spec, absl::Span<const CollectiveRank> ranks, size_t first,
                          size_t results, int64_t begin, int64_t end);

// A sum in two stages, for means and sums. SumOnHost writes weight * data summed over spec.ranks to `sums`, one
// accumulator for each element: a float, or a double if spec.dtype is float64. AddSumsOnHost adds such sums of several
// processes, in the order given, and writes sum / divisor to spec.ranks; the sums begin with element `first`.
void SumOnHost(const CollectiveSpec& spec, int64_t begin, int64_t end, void* sums);
void AddSumsOnHost(const CollectiveSpec& spec, absl::Span<const void* const> sums, int64_t first, double divisor,
                   int64_t begin, int64_t end);
// The bytes of an accumulator.
size_t AccumulatorSize(DType dtype);

// InvalidArgument if the weights of a mean, which add up to `total`, are all zero.
absl::Status CheckTotalWeight(const CollectiveSpec& spec, double total);
// InvalidArgument unless the dtype can be reduced as spec.kind says.
absl::Status CheckDType(const CollectiveSpec& spec);

}  // namespace belfry
