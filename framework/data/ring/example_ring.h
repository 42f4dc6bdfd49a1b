// A ring of batches of a data set's examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/ring/batch_ring.h"

namespace belfry::data {

// Batches of examples, split over towers. A derived class says which examples are in a batch, and makes each of them.
class ExampleRing : public BatchRing {
 public:
  absl::Span<const Field> fields() const override { return fields_; }
  int64_t batch_size() const override { return options_.batch_size; }
  int64_t batches_per_epoch() const override { return batches_per_epoch_; }
  int towers() const override { return options_.towers; }
  int local_towers() const override;
  // data::PutPosition; TakePosition reads it.
  void PutPosition(Position next, io::Metadata& metadata) const override;

 protected:
  // InvalidArgument for options that make no batch of `examples`, if not by their start.
  static absl::Status CheckDealing(const PrefetcherOptions& options, int64_t examples);
  // InvalidArgument if an epoch has no batches, `of` which the error then says, or not that of the start.
  static absl::Status CheckStart(const PrefetcherOptions& options, int64_t batches, absl::string_view of);

  // `fields` are those in a batch.
  ExampleRing(PrefetcherOptions options, Rules rules, std::vector<Field> fields, int64_t examples, int64_t batches);

  // Makes `slot` a batch of these examples, whose unknown extents are `extent`. Batches of the same `shape`, a small
  // number, are alike in both. A slot allocates the tensors of a shape on its first use.
  void Deal(Slot& slot, size_t shape, absl::Span<const int64_t> indices, int64_t extent = 0)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the examples at positions [begin, end).
  absl::Status Fill(Slot& slot, int64_t begin, int64_t end, int worker) override;
  // Makes the example at position `at` of the batch, a row of `tower`. Called by Fill.
  virtual absl::Status MakeExample(const Slot& slot, TowerBatch& tower, int64_t at, int worker) = 0;
  absl::StatusOr<Position> Seek(const io::Metadata& saved) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first byte of that example's field `i`.
  static std::byte* RowOf(TowerBatch& tower, size_t i, int64_t at) {
    Tensor& field = tower.fields[i];
    const auto row = static_cast<size_t>(at - tower.offset), rows = static_cast<size_t>(tower.count);
    return static_cast<std::byte*>(field.raw()) + row * (field.bytes() / rows);
  }

  const std::vector<Field> fields_;
  const int64_t examples_;  // of an epoch

 private:
  const int64_t batches_per_epoch_;
};

}  // namespace belfry::data
