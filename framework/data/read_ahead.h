// Batches of any source, made ahead of need by a thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/data/batch_source.h"

namespace belfry::data {

// The batches of another source, in their order. A thread calls the source's Next, and gives batches back to it, while
// those before are trained on. For a BucketBatcher or a source of one's own; a Prefetcher has threads itself. The
// destructor waits for the batch that is being made. Thread-safe, as a Prefetcher is.
class ReadAhead final : public BatchSource {
 public:
  // Starts reading at once. `source` must outlive the result, must lend depth + 1 batches besides those handed out
  // here, and must not be used by others. InvalidArgument: a depth outside [1, 1024]. ResourceExhausted if the system
  // has no threads left.
  static absl::StatusOr<std::unique_ptr<ReadAhead>> Create(BatchSource& source, int depth = 3);
  ~ReadAhead() override;
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The source's next batch, waiting for it if necessary. An error of the source, when its batch is reached, and at
  // every later call.
  absl::StatusOr<Batch> Next() override;
  Position position() const override;
  // Drops what was made ahead and moves the source. After an error Next returns that, too.
  absl::Status Resume(const io::Metadata& saved) override;

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
  // A batch that was handed out.
  struct Slot : BatchContents {
    Batch batch;  // of the source
  };

  ReadAhead(BatchSource& source, int depth);
  absl::Status Start();
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  Slot& FreeSlot() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(BatchContents& contents) override ABSL_LOCKS_EXCLUDED(mutex_);

  BatchSource& source_;
  const size_t depth_;
  mutable Mutex source_mutex_;  // held while the source makes or takes back a batch

  mutable Mutex mutex_;
  std::deque<Batch> ready_ ABSL_GUARDED_BY(mutex_);
  std::vector<Batch> returned_ ABSL_GUARDED_BY(mutex_);  // that the thread has yet to give back
  std::vector<std::unique_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);
  Position position_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // after it the thread makes no more
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace belfry::data
