// Batches, read and augmented by worker threads ahead of need.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/base/tensor.h"
#include "framework/data/augment.h"
#include "framework/data/dataset.h"
#include "framework/data/sampler.h"

namespace belfry::data {

struct PrefetcherOptions {
  int64_t batch_size = 128;  // global: split over the towers by RangeOfTower
  int towers = 1;
  uint64_t seed = 0;            // of the order and of the augmentation
  bool shuffle = true;          // a new order each epoch, else the dataset's own
  bool drop_remainder = false;  // leave out the last, smaller batch of each epoch
  int64_t epochs = 0;           // the epoch number to end before; 0: never end
  Position start;               // the first batch: to resume, the Batch::next of the last one trained on
  ImagePolicy images;           // for datasets of images only
  int threads = 2;              // up to 1024; 0: Next itself makes the batch, on the caller's thread
  int depth = 3;                // batches made ahead, beside the one handed out; 1 to 1024
};

// One tower's part of a batch. A tower may get no examples (count 0, tensors of no elements) when a last batch is
// smaller than the number of towers.
struct TowerBatch {
  Tensor inputs;       // float32 [count, H, W, C] under the image policy, or [count, ...] features
  Tensor labels;       // [count]: int32 classes, or float32 numbers to predict
  int64_t offset = 0;  // of its first example in the global batch
  int64_t count = 0;
};

class Prefetcher;

// A batch on loan from a Prefetcher, which it must not outlive: destroying it, or assigning another to it, gives its
// memory back, and its tensors are written again. Clone() what is to be kept. Movable; not thread-safe.
class Batch {
 public:
  Batch() = default;  // empty
  Batch(Batch&& other) noexcept { *this = std::move(other); }
  Batch& operator=(Batch&& other) noexcept;
  ~Batch() { Release(); }
  // Gives the memory back; the batch is empty then.
  void Release();

  bool empty() const { return owner_ == nullptr; }
  // The rest REQUIRES: !empty().
  absl::Span<const TowerBatch> towers() const;
  int64_t examples() const;                   // of all towers
  absl::Span<const int64_t> indices() const;  // in the dataset, in batch order: examples() of them
  Position position() const;
  Position next() const;  // where a Prefetcher must start to go on after this batch
  int64_t step() const;   // batches before this one, counted from (0, 0)

 private:
  friend class Prefetcher;
  Batch(Prefetcher* owner, int slot) : owner_(owner), slot_(slot) {}
  Prefetcher* owner_ = nullptr;
  int slot_ = 0;
};

// A ring of preallocated batches that worker threads fill in order. What a batch holds depends on (dataset, seed,
// batch_size, shuffle, images, position) alone: not on threads, depth or timing; and the towers' parts one after the
// other are the same for any number of towers. After the ring has gone round once, nothing is allocated.
// Thread-safe; the destructor stops the workers and waits for at most the examples they are at.
class Prefetcher {
 public:
  // Starts reading at once. `dataset` must outlive the result. InvalidArgument for options that make no batch: sizes
  // below 1, a start outside the epoch, an image policy that does not fit, an empty dataset. ResourceExhausted if the
  // system has no threads left.
  static absl::StatusOr<std::unique_ptr<Prefetcher>> Create(const Dataset& dataset, PrefetcherOptions options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next batch, waiting for it if need be. OutOfRange after the last epoch; Cancelled after Cancel; the dataset's
  // error (of the first example concerned, in batch order), again at each call, when a batch that had one is reached;
  // FailedPrecondition if the ring has gone round to a batch that is still on loan.
  absl::StatusOr<Batch> Next();

  // Ends the workers; Next, also one that waits, returns Cancelled from now on. Batches on loan stay valid.
  void Cancel();

  // Of the batch that Next will return.
  Position position() const;

  const PrefetcherOptions& options() const { return options_; }
  const ExampleSpec& spec() const { return dataset_.spec(); }
  // Of one example as batches hold it, without the axis of the batch.
  const Shape& input_shape() const { return input_shape_; }
  int64_t examples_per_epoch() const { return dataset_.size(); }
  int64_t batches_per_epoch() const { return batches_per_epoch_; }

 private:
  friend class Batch;
  struct Slot;
  // Examples [begin, end) of the batch in `slot`, which one thread makes at a time.
  struct Chunk {
    Slot* slot;
    int64_t begin, end;
  };
  // What a thread needs to make examples.
  struct Maker {
    std::optional<Augmenter> augmenter;
    std::vector<std::byte> scratch;
  };

  Prefetcher(const Dataset& dataset, PrefetcherOptions options, Shape input_shape, std::optional<Augmenter> augmenter);
  Maker NewMaker() const;
  void Work(Maker maker);
  // The chunk to be made next; null when there is none now.
  std::optional<Chunk> Claim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CanClaim() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Open(Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Deal(Slot& slot, int64_t examples);
  absl::Status Make(const Chunk& chunk, Maker& maker);
  absl::Status MakeExample(const Slot& slot, TowerBatch& tower, int64_t at, Maker& maker);
  void Finish(const Chunk& chunk, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  bool CanTake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Batch> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Batch> MakeAndTake() ABSL_LOCKS_EXCLUDED(mutex_);
  // True if no batch can come unless the caller does something.
  bool Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(int slot) ABSL_LOCKS_EXCLUDED(mutex_);
  bool AtEnd(const Position& position) const;
  Position After(const Position& position) const;
  Slot& SlotAt(int64_t count) const { return *slots_[count % static_cast<int64_t>(slots_.size())]; }

  const Dataset& dataset_;
  const PrefetcherOptions options_;
  const Shape input_shape_;
  const std::optional<Augmenter> augmenter_;  // copied by each thread
  const int64_t batches_per_epoch_;
  const int64_t chunk_;                       // examples that a thread makes at a time
  std::vector<std::unique_ptr<Slot>> slots_;  // batch number n since the start is in slot n mod size

  mutable Mutex mutex_;
  int64_t opened_ ABSL_GUARDED_BY(mutex_) = 0;  // batches whose making has begun
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;   // batches that Next has returned
  Position to_open_ ABSL_GUARDED_BY(mutex_), to_take_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> order_ ABSL_GUARDED_BY(mutex_);  // of the epoch order_epoch_
  int64_t order_epoch_ ABSL_GUARDED_BY(mutex_) = -1;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;  // an example could not be read: open no more batches
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;

  Mutex own_maker_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  Maker own_maker_ ABSL_GUARDED_BY(own_maker_mutex_);  // of callers of Next when there are no threads
  std::vector<std::thread> threads_;
};

}  // namespace belfry::data
