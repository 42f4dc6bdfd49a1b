// A ring of batches that threads fill ahead of need.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "framework/data/batch_source.h"
#include "framework/data/prefetcher_options.h"

namespace belfry::data {

// A source whose batches are made in slots, in their order: by threads ahead of need, or by the caller of Next. A batch
// that is given back leaves its slot to another. A class derived from it says what a batch holds, and makes it; all
// that has to do with threads, loans and positions is here. Thread-safe.
class BatchRing : public BatchSource {
 public:
  ~BatchRing() override;
  BatchRing(const BatchRing&) = delete;
  BatchRing& operator=(const BatchRing&) = delete;

  // The next batch, waiting for it if necessary. OutOfRange after the last epoch; Cancelled after Cancel; what Fill
  // returned for the first piece that failed, at this and every later call, when its batch is reached;
  // FailedPrecondition if all slots are on loan.
  absl::StatusOr<Batch> Next() final;

  // Stops the threads. From now on Next returns Cancelled, even to callers already waiting. Batches on loan stay valid.
  void Cancel();

  Position position() const final;
  // Waits for the threads to finish what they are making, and drops it.
  absl::Status Resume(const io::Metadata& saved) final;

 protected:
  // A batch. It is free, open (being made, or ready) or on loan. mutex_ guards all members, but not the contents of a
  // batch: while it is being made they belong to the threads that fill it, each its own pieces, and on loan to the
  // holder of the Batch. Each hand-over locks the mutex, which orders the writes of one owner before the reads of the
  // next.
  struct Slot : BatchContents {
    virtual ~Slot() = default;
    int64_t pieces = 0;             // to make, such as examples
    int64_t claimed = 0, made = 0;  // pieces handed to threads, and pieces finished
    absl::Status status;
    int64_t failed_at = 0;  // when !status.ok(): the first piece of those that failed
    // The towers' memory by shape of a batch, made when first needed and then reused; and that of this batch.
    std::vector<std::vector<TowerBatch>> shapes;
    std::vector<TowerBatch>* parts = nullptr;
  };
  struct Rules {
    bool grows = false;    // all slots are on loan: add one, instead of an error
    bool retries = false;  // a batch has failed: make it again at the next call. REQUIRES: no threads
    bool waits = false;    // make no batch before the first call of Next
  };

  // InvalidArgument: numbers of threads or batches that no ring has.
  static absl::Status CheckRing(const PrefetcherOptions& options);
  // Uses the options' epochs, start, stride, threads and depth.
  BatchRing(PrefetcherOptions options, Rules rules);
  // Starts the threads; the last thing that a derived class's Create does. ResourceExhausted if the system has none
  // left.
  absl::Status Start();
  // Stops the threads and waits for what each is making; the first thing that a derived class's destructor does.
  void Stop();

  // True from Cancel on, for a Fill that takes long.
  bool cancelled() const ABSL_LOCKS_EXCLUDED(mutex_);

  virtual std::unique_ptr<Slot> NewSlot() const { return std::make_unique<Slot>(); }
  // Prepares a slot whose position, next and step are set: its pieces, and what Fill needs. Called in the order of the
  // batches. May throw std::bad_alloc.
  virtual void Open(Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Makes pieces [begin, end). `worker` is below max(1, options.threads), and no other call has it meanwhile. May throw
  // std::bad_alloc.
  virtual absl::Status Fill(Slot& slot, int64_t begin, int64_t end, int worker) = 0;
  // The batch in `slot` is no longer used.
  virtual void Drop(Slot&) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {}
  // The position to go on at. No batch is open or on loan.
  virtual absl::StatusOr<Position> Seek(const io::Metadata& saved) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  const PrefetcherOptions options_;
  mutable Mutex mutex_;

 private:
  // Pieces [begin, end) of a batch, made by one thread; of no batch if there is nothing to make now.
  struct Chunk {
    Slot* slot = nullptr;
    int64_t begin = 0, end = 0;
  };

  void Work(int worker);
  bool AtEnd(const Position& position) const;
  bool CanOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CanClaim() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Chunk Claim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddSlot() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Make(const Chunk& chunk, int worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // True if Take need not wait: it has a batch or an error.
  bool CanTake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Batch> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool OnLoan() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops all open batches.
  void Restart() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(BatchContents& contents) final ABSL_LOCKS_EXCLUDED(mutex_);

  const Rules rules_;
  const int64_t chunk_;                           // pieces that a thread makes at a time, at most
  Mutex own_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);  // held by the caller that makes batches itself, or moves the ring
  std::vector<std::unique_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mutex_), open_ ABSL_GUARDED_BY(mutex_);  // the first is to be used first
  Position to_open_ ABSL_GUARDED_BY(mutex_), to_take_ ABSL_GUARDED_BY(mutex_);
  absl::Status stopped_ ABSL_GUARDED_BY(mutex_);  // an error, after which no more batches are opened
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool moving_ ABSL_GUARDED_BY(mutex_) = false;  // no chunk may be claimed
  bool waits_ ABSL_GUARDED_BY(mutex_);           // likewise, until Next is called
  std::vector<std::thread> threads_;
};

}  // namespace belfry::data
