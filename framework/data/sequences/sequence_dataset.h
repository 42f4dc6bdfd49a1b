// Datasets of sequences of different lengths.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/data/dataset.h"
#include "framework/data/field.h"
#include "framework/data/in_memory.h"

namespace belfry::data {

// A set of examples with random access, some of whose fields are sequences. Immutable, so any number of threads may
// read at once.
class SequenceDataset {
 public:
  virtual ~SequenceDataset() = default;

  virtual int64_t size() const = 0;
  // The fields that each example has. The first extent of a sequence is unknown, [?, ...]: it is the example's length.
  // All others are known. The same at each call.
  virtual absl::Span<const Field> fields() const = 0;
  // The number of steps, 0 or more, of all sequences of example `index`. It is asked of all examples at once, so it
  // must not read them. REQUIRES: 0 <= index < size().
  virtual int64_t length(int64_t index) const = 0;
  // Writes all fields of example `index`, of sequences their length(index) steps. Errors name the file and the record.
  // REQUIRES: 0 <= index < size().
  virtual absl::Status Read(int64_t index, const Example& example) const = 0;
};

// A dataset over the caller's tensors, whose buffers are shared and must not be written afterwards. `lengths` is int32
// [N]; each of `sequences` has the steps of all examples one after the other, [sum(lengths), ...], and each of `others`
// one element per example, [N, ...]:
//   FromSequences(lengths, {{"token", tokens, 256}}, {{"label", labels, 2}})
// InvalidArgument: lengths that are not so or below 0, no sequence, or what FromTensors refuses.
absl::StatusOr<std::unique_ptr<SequenceDataset>> FromSequences(Tensor lengths, std::vector<TensorField> sequences,
                                                               std::vector<TensorField> others = {});

}  // namespace belfry::data
