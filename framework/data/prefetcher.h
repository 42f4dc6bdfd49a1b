// Batches that worker threads read and augment ahead of need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/data/augment.h"
#include "framework/data/dataset.h"
#include "framework/data/prefetcher_options.h"
#include "framework/data/ring/example_ring.h"

namespace belfry::data {

// A ring of preallocated batches that worker threads fill in order. The contents of a batch depend only on (dataset,
// seed, batch_size, shuffle, images, position), not on threads, depth or timing; and the towers' parts, one after the
// other, are the same for any number of towers. Once the ring has gone round, nothing is allocated. Thread-safe. The
// destructor stops the workers, waiting at most for the chunk that each is making.
//
// Its fields are those of the dataset, as float32 [H, W, C] where there is an image policy, or Field::in_step where a
// step applies it; then kPositionField, for steps, and MixUp's fields.
class Prefetcher final : public ExampleRing {
 public:
  // Starts reading at once. `dataset` must outlive the result. InvalidArgument for options that cannot make a batch:
  // sizes below 1, a start outside the epoch, an image policy that does not fit, an empty dataset or one whose fields
  // are not as CheckFields wants them, or whose images are to stay on a device and vary. ResourceExhausted if the
  // system has no threads left.
  static absl::StatusOr<std::unique_ptr<Prefetcher>> Create(const Dataset& dataset, PrefetcherOptions options);
  ~Prefetcher() override { Stop(); }

  int64_t last_batch_size() const override;
  absl::StatusOr<std::vector<std::string>> Settings() const override;

  const PrefetcherOptions& options() const { return options_; }
  const Dataset& dataset() const { return dataset_; }

 private:
  struct Mixture;
  // A worker's own state for making examples.
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
             const std::vector<std::optional<Augmenter>>& augmenters);
  Maker NewMaker(const std::vector<std::optional<Augmenter>>& augmenters) const;
  std::unique_ptr<Slot> NewSlot() const override;
  void Open(Slot& slot) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeExample(const Slot& slot, TowerBatch& tower, int64_t at, int worker) override;
  absl::Status MakeMixture(const Mixture& slot, TowerBatch& tower, int64_t at, Maker& maker);
  // Writes the fields of the dataset's example `index`, as they are in a batch, to `outputs`.
  absl::Status ReadTo(int64_t index, int64_t epoch, absl::Span<std::byte* const> outputs, Maker& maker);

  const Dataset& dataset_;
  std::vector<Maker> makers_;                           // by worker
  std::vector<int64_t> order_ ABSL_GUARDED_BY(mutex_);  // the order of epoch order_epoch_
  int64_t order_epoch_ ABSL_GUARDED_BY(mutex_) = -1;
};

}  // namespace belfry::data
