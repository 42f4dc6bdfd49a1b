// Sources of batches for training.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/data/field.h"
#include "framework/data/sampler.h"
#include "framework/io/safetensors.h"

namespace belfry::data {

// One tower's part of a batch. If the last batch is smaller than the number of towers, some get no examples (count 0,
// tensors without elements).
struct TowerBatch {
  std::vector<Tensor> fields;  // [count, ...] each, in the order of BatchSource::fields()
  int64_t offset = 0;          // index of its first example in the global batch
  int64_t count = 0;
};

// The extents of a tower's tensors that are unknown in `fields`, in the order of the fields.
std::vector<int64_t> UnknownExtents(absl::Span<const Field> fields, const TowerBatch& tower);

// A batch in the memory of its source.
struct BatchContents {
  absl::Span<const TowerBatch> towers;  // of this process
  int64_t examples = 0;                 // in the towers of all processes together
  std::vector<int64_t> indices = {};    // in the dataset, in batch order, where there is one: as many as `examples`
  Position position, next;              // of this batch, and of the one after it
  int64_t step = 0;                     // number of batches before this one, counted from (0, 0)
};

// The shape of a batch. A step is compiled for each.
struct BatchShape {
  BatchShape(int64_t all, std::vector<int64_t> unknown = {}) : examples(all), extents(std::move(unknown)) {}  // NOLINT

  int64_t examples;              // in the towers of all processes together
  std::vector<int64_t> extents;  // unknown ones of BatchSource::fields, in the order of the fields

  bool operator==(const BatchShape& other) const { return examples == other.examples && extents == other.extents; }
  bool operator<(const BatchShape& other) const {
    return examples != other.examples ? examples < other.examples : extents < other.extents;
  }
};

class BatchSource;

// A batch on loan from a BatchSource, which it must not outlive. Destroying it or assigning another to it returns its
// memory, whose tensors are then overwritten; Clone() anything to be kept. Movable; not thread-safe.
class Batch {
 public:
  Batch() = default;  // empty
  // For a source: `contents` must stay as they are until they are given back.
  Batch(BatchSource& source, BatchContents& contents) : source_(&source), contents_(&contents) {}
  Batch(Batch&& other) noexcept { *this = std::move(other); }
  Batch& operator=(Batch&& other) noexcept;
  ~Batch() { Release(); }
  // Returns the memory; the batch is then empty.
  void Release();

  bool empty() const { return source_ == nullptr; }
  // All of these REQUIRE !empty(). See BatchContents.
  absl::Span<const TowerBatch> towers() const { return contents_->towers; }
  int64_t examples() const { return contents_->examples; }
  absl::Span<const int64_t> indices() const { return contents_->indices; }
  Position position() const { return contents_->position; }
  Position next() const { return contents_->next; }
  int64_t step() const { return contents_->step; }

 private:
  BatchSource* source_ = nullptr;
  BatchContents* contents_ = nullptr;
};

// The first value in a batch that no model can use: a float that is not finite, or a number above a field's categories.
// "field 'x' of example 2 of the batch, 733 of the data, is nan"; empty if there is none. For errors: it looks at
// everything.
std::string FindFault(absl::Span<const Field> fields, const Batch& batch);

// Where a Trainer's batches come from: a Prefetcher, which reads them from a Dataset, or a class of one's own for data
// that are not a Dataset, such as a simulation or a stream. The functions are called by one thread.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // The fields of an example as they are in a batch. The same at each call. An extent may be unknown, such as the
  // number of steps of a sequence: it then differs from batch to batch, but is the same in all towers of all processes.
  virtual absl::Span<const Field> fields() const = 0;
  // Number of examples of a whole batch in all towers of all processes.
  virtual int64_t batch_size() const = 0;
  // Batches of an epoch, and the number of examples of the last of them. A source without epochs, whose batches are all
  // whole, keeps the defaults.
  virtual int64_t batches_per_epoch() const { return 1; }
  virtual int64_t last_batch_size() const { return batch_size(); }
  // The shapes of all batches, of a source whose fields have unknown extents, so that their steps can be compiled
  // before the first one. Empty: batches have batch_size() or last_batch_size() examples or, with unknown extents,
  // their shapes are not known.
  virtual std::vector<BatchShape> shapes() const { return {}; }
  virtual int towers() const = 0;        // of all processes
  virtual int local_towers() const = 0;  // of this process: the number of elements of Batch::towers

  // The next batch. Its `examples` is above 0 and the same in all processes, and each tower has the part that
  // RangeOfTower says. OutOfRange: there are no more.
  virtual absl::StatusOr<Batch> Next() = 0;
  // Position of the batch that Next returns next.
  virtual Position position() const = 0;
  // Adds to a checkpoint's metadata whatever a program needs to make a source that goes on at the batch `next`.
  virtual void PutPosition(Position next, io::Metadata& metadata) const = 0;
  // Moves to the position that PutPosition wrote to `saved`, so that Next goes on there. No batch may be on loan.
  // Errors: FailedPrecondition if the source makes other batches than then; Unimplemented if it cannot move.
  virtual absl::Status Resume(const io::Metadata& saved);
  // Lines that must be the same in all processes of a run: whatever decides which examples a batch holds.
  virtual absl::StatusOr<std::vector<std::string>> Settings() const = 0;

 private:
  friend class Batch;
  // The batch is no longer used, so its memory may be overwritten.
  virtual void GiveBack(BatchContents& contents) = 0;
};

}  // namespace belfry::data
