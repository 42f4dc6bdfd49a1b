// Batches that worker threads read and augment ahead of need.
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
  int64_t batch_size = 128;     // global batch size, split over the towers by RangeOfTower
  int towers = 1;               // of all processes
  int first_tower = 0;          // the first one whose examples are made here
  int local_towers = 0;         // number of towers whose examples are made here; 0: all from first_tower
  uint64_t seed = 0;            // seeds the order and the augmentation
  bool shuffle = true;          // a new order each epoch; otherwise the dataset's order
  bool drop_remainder = false;  // skip the last, smaller batch of each epoch
  int64_t epochs = 0;           // stop before the epoch of this number; 0: never stop
  Position start;               // the first batch; to resume, the Batch::next of the last one trained on
  int64_t stride = 1;           // batches of an epoch from one to the next; those between are left to others
  ImagePolicy images;           // for datasets of images only
  int threads = 2;              // up to 1024; 0: Next makes the batch itself, on the caller's thread
  int depth = 3;                // batches made ahead, besides the one handed out; 1 to 1024
};

// One tower's part of a batch. If the last batch is smaller than the number of towers, some get no examples (count 0,
// tensors without elements).
struct TowerBatch {
  Tensor inputs;       // float32 [count, H, W, C] under the image policy, or [count, ...] features
  Tensor labels;       // [count]: int32 classes, or float32 numbers to predict
  int64_t offset = 0;  // index of its first example in the global batch
  int64_t count = 0;
};

class Prefetcher;

// A batch on loan from a Prefetcher, which it must not outlive. Destroying it or assigning another to it returns its
// memory, whose tensors are then overwritten; Clone() anything to be kept. Movable; not thread-safe.
class Batch {
 public:
  Batch() = default;  // empty
  Batch(Batch&& other) noexcept { *this = std::move(other); }
  Batch& operator=(Batch&& other) noexcept;
  ~Batch() { Release(); }
  // Returns the memory; the batch is then empty.
  void Release();

  bool empty() const { return owner_ == nullptr; }
  // All of these REQUIRE !empty().
  absl::Span<const TowerBatch> towers() const;  // those made here
  int64_t examples() const;                     // in all towers together
  absl::Span<const int64_t> indices() const;    // indices in the dataset, in batch order; examples() of them
  Position position() const;
  Position next() const;  // the start for a Prefetcher that continues after this batch
  int64_t step() const;   // number of batches before this one, counted from (0, 0)

 private:
  friend class Prefetcher;
  Batch(Prefetcher* owner, int slot) : owner_(owner), slot_(slot) {}
  Prefetcher* owner_ = nullptr;
  int slot_ = 0;
};

// A ring of preallocated batches that worker threads fill in order. The contents of a batch depend only on (dataset,
// seed, batch_size, shuffle, images, position), not on threads, depth or timing; and the towers' parts, one after the
// other, are the same for any number of towers. Once the ring has gone round, nothing is allocated. Thread-safe. The
// destructor stops the workers, waiting at most for the chunk that each is making.
class Prefetcher {
 public:
  // Starts reading at once. `dataset` must outlive the result. InvalidArgument for options that cannot make a batch:
  // sizes below 1, a start outside the epoch, an image policy that does not fit, an empty dataset. ResourceExhausted if
  // the system has no threads left.
  static absl::StatusOr<std::unique_ptr<Prefetcher>> Create(const Dataset& dataset, PrefetcherOptions options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Returns the next batch, waiting for it if necessary. OutOfRange after the last epoch; Cancelled after Cancel; the
  // dataset's error (that of the first failed example in batch order), at this and every later call, when the batch it
  // belongs to is reached; FailedPrecondition if the ring has gone round to a batch that is still on loan.
  absl::StatusOr<Batch> Next();

  // Stops the workers. From now on Next returns Cancelled, even to callers already waiting. Batches on loan stay valid.
  void Cancel();

  // Position of the batch that Next returns next.
  Position position() const;

  const PrefetcherOptions& options() const { return options_; }
  const Dataset& dataset() const { return dataset_; }
  const ExampleSpec& spec() const { return dataset_.spec(); }
  // Shape of one example in a batch, without the batch axis.
  const Shape& input_shape() const { return input_shape_; }
  // Number of elements of Batch::towers.
  int local_towers() const;
  int64_t examples_per_epoch() const { return dataset_.size(); }
  int64_t batches_per_epoch() const { return batches_per_epoch_; }

 private:
  friend class Batch;
  struct Slot;
  // Examples [begin, end) of the batch in `slot`, made by one thread.
  struct Chunk {
    Slot* slot;
    int64_t begin, end;
  };
  // A thread's own state for making examples.
  struct Maker {
    std::optional<Augmenter> augmenter;
    std::vector<std::byte> scratch;
  };

  Prefetcher(const Dataset& dataset, PrefetcherOptions options, Shape input_shape, std::optional<Augmenter> augmenter);
  Maker NewMaker() const;
  void Work(Maker maker);
  // The next chunk to make; nullopt if there is none now, or if there is no memory for its batch, which then has that
  // error.
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
  // True if no batch can come unless the caller acts.
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
  const int64_t chunk_;                       // examples that a thread makes at a time, at most
  std::vector<std::unique_ptr<Slot>> slots_;  // batch number n since the start is in slot n mod size

  mutable Mutex mutex_;
  int64_t opened_ ABSL_GUARDED_BY(mutex_) = 0;  // batches opened so far
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;   // batches that Next has returned so far
  Position to_open_ ABSL_GUARDED_BY(mutex_), to_take_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> order_ ABSL_GUARDED_BY(mutex_);  // the order of epoch order_epoch_
  int64_t order_epoch_ ABSL_GUARDED_BY(mutex_) = -1;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;  // an example could not be read: do not open any more batches
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;

  Mutex own_maker_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  Maker own_maker_ ABSL_GUARDED_BY(own_maker_mutex_);  // used by Next if there are no threads
  std::vector<std::thread> threads_;
};

}  // namespace belfry::data
