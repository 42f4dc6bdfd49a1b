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
#include "framework/data/batch_source.h"
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
  Position start = {};          // the first batch; to resume, the Batch::next of the last one trained on
  int64_t stride = 1;           // batches of an epoch from one to the next; those between are left to others
  ImagePolicies images = {};    // by field; a field of bytes without one stays as it is
  // The part that applies them. All have the same random numbers, and images that differ by float32 rounding at most.
  AugmentBy augment = AugmentBy::kWorkers;
  // MixUp (Zhang et al., "mixup: beyond empirical risk minimization", 2018), from 0, none, to 1000: example i of a
  // batch has a partner j in the same batch, by a permutation, and float32 fields become w x_i + (1 - w) x_j with one w
  // from Beta(mixup, mixup) for the batch. The fields of MixtureFields (framework/data/mixup.h) come last: the
  // partner's fields that are not float32, and w. Only where workers apply the images' policies. Partners and w depend
  // on the seed and the number of the step.
  double mixup = 0;
  int threads = 2;  // up to 1024; 0: Next makes the batch itself, on the caller's thread
  int depth = 3;    // batches made ahead, besides the one handed out; 1 to 1024
};

// A ring of preallocated batches that worker threads fill in order. The contents of a batch depend only on (dataset,
// seed, batch_size, shuffle, images, position), not on threads, depth or timing; and the towers' parts, one after the
// other, are the same for any number of towers. Once the ring has gone round, nothing is allocated. Thread-safe. The
// destructor stops the workers, waiting at most for the chunk that each is making.
class Prefetcher final : public BatchSource {
 public:
  // Starts reading at once. `dataset` must outlive the result. InvalidArgument for options that cannot make a batch:
  // sizes below 1, a start outside the epoch, an image policy that does not fit, an empty dataset or one whose fields
  // are not as CheckFields wants them, or whose images are to stay on a device and vary. ResourceExhausted if the
  // system has no threads left.
  static absl::StatusOr<std::unique_ptr<Prefetcher>> Create(const Dataset& dataset, PrefetcherOptions options);
  ~Prefetcher() override;
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Returns the next batch, waiting for it if necessary. OutOfRange after the last epoch; Cancelled after Cancel; the
  // dataset's error (for the first failed example in batch order), at this and every later call, when the batch it
  // belongs to is reached; FailedPrecondition if the ring has gone round to a batch that is still on loan.
  absl::StatusOr<Batch> Next() override;

  // Stops the workers. From now on Next returns Cancelled, even to callers already waiting. Batches on loan stay valid.
  void Cancel();

  // The fields of the dataset, as float32 [H, W, C] where there is an image policy, or Field::in_step where a step
  // applies it; then kPositionField, for steps, and MixUp's fields.
  absl::Span<const Field> fields() const override { return fields_; }
  int64_t batch_size() const override { return options_.batch_size; }
  int64_t batches_per_epoch() const override { return batches_per_epoch_; }
  int64_t last_batch_size() const override;
  int towers() const override { return options_.towers; }
  int local_towers() const override;
  Position position() const override;
  // data::PutPosition; TakePosition reads it.
  void PutPosition(Position next, io::Metadata& metadata) const override;
  // As TakePosition; waits for the workers to finish what they are making, and drops it.
  absl::Status Resume(const io::Metadata& saved) override;
  absl::StatusOr<std::vector<std::string>> Settings() const override;

  const PrefetcherOptions& options() const { return options_; }
  const Dataset& dataset() const { return dataset_; }

 private:
  struct Slot;
  // Examples [begin, end) of the batch in `slot`, made by one thread.
  struct Chunk {
    Slot* slot;
    int64_t begin, end;
  };
  // A thread's own state for making examples.
  struct Maker {
    // For each field: for images with a policy, the augmenter, if workers apply it, and memory for bytes that are not
    // for the batch.
    std::vector<std::optional<Augmenter>> augmenters;
    std::vector<std::vector<std::byte>> images;
    std::vector<std::byte*> places;  // of an example's fields
    // Float32 fields of MixUp's partner, and the places of all of its fields.
    std::vector<std::vector<float>> partner;
    std::vector<std::byte*> outputs, partner_outputs;
  };

  Prefetcher(const Dataset& dataset, PrefetcherOptions options, std::vector<Field> fields,
             std::vector<std::optional<Augmenter>> augmenters);
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
  absl::Status MakeMixture(const Slot& slot, TowerBatch& tower, int64_t at, Maker& maker);
  // Writes the fields of the dataset's example `index`, as they are in a batch, to `outputs`.
  absl::Status ReadTo(int64_t index, int64_t epoch, absl::Span<std::byte* const> outputs, Maker& maker);
  void Finish(const Chunk& chunk, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CanTake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Batch> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Batch> MakeAndTake() ABSL_LOCKS_EXCLUDED(mutex_);
  // True if no batch can come unless the caller acts.
  bool Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(BatchContents& contents) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool AtEnd(const Position& position) const;
  Position After(const Position& position) const;
  Slot& SlotAt(int64_t count) const { return *slots_[count % static_cast<int64_t>(slots_.size())]; }

  const Dataset& dataset_;
  const PrefetcherOptions options_;
  const std::vector<Field> fields_;                         // in a batch
  const std::vector<std::optional<Augmenter>> augmenters_;  // by field; copied by each thread
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
  bool moving_ ABSL_GUARDED_BY(mutex_) = false;  // no chunk may be claimed

  Mutex own_maker_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  Maker own_maker_ ABSL_GUARDED_BY(own_maker_mutex_);  // used by Next if there are no threads
  std::vector<std::thread> threads_;
};

}  // namespace belfry::data
