// Batches of any source, made ahead of need by a thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/data/ring/batch_ring.h"

namespace belfry::data {

// The batches of another source, in their order. A thread calls the source's Next, and gives batches back to it, while
// those before are trained on. For a BucketBatcher or a source of one's own; a Prefetcher has threads itself. Next
// returns an error of the source when its batch is reached, and at every later call. Resume moves the source; if that
// fails, Next returns its error. The destructor waits for the batch that is being made. Thread-safe, as a Prefetcher
// is.
class ReadAhead final : public BatchRing {
 public:
  // Starts reading at once. `source` must outlive the result, must lend depth + 1 batches besides those handed out
  // here, and must not be used by others. InvalidArgument: a depth outside [1, 1024]. ResourceExhausted if the system
  // has no threads left.
  static absl::StatusOr<std::unique_ptr<ReadAhead>> Create(BatchSource& source, int depth = 3);
  ~ReadAhead() override { Stop(); }

  // The source's. PutPosition and Settings wait for the batch that is being made.
  absl::Span<const Field> fields() const override { return source_.fields(); }
  int64_t batch_size() const override { return source_.batch_size(); }
  int64_t batches_per_epoch() const override { return source_.batches_per_epoch(); }
  int64_t last_batch_size() const override { return source_.last_batch_size(); }
  std::vector<BatchShape> shapes() const override { return source_.shapes(); }
  int towers() const override { return source_.towers(); }
  int local_towers() const override { return source_.local_towers(); }
  void PutPosition(Position next, io::Metadata& metadata) const override;
  absl::StatusOr<std::vector<std::string>> Settings() const override;

 private:
  struct Loan;

  ReadAhead(BatchSource& source, const PrefetcherOptions& options)
      : BatchRing(options, {.grows = true}), source_(source) {}
  std::unique_ptr<Slot> NewSlot() const override;
  void Open(Slot& slot) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { slot.pieces = 1; }
  absl::Status Fill(Slot& slot, int64_t begin, int64_t end, int worker) override;
  void Drop(Slot& slot) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Position> Seek(const io::Metadata& saved) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  BatchSource& source_;
  std::vector<Batch> returned_ ABSL_GUARDED_BY(mutex_);  // that the thread has yet to give back
  mutable Mutex source_mutex_;                           // held while the source makes or takes back a batch
  absl::Status moved_ ABSL_GUARDED_BY(source_mutex_);    // of the source's Resume
};

}  // namespace belfry::data
