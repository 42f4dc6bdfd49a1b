// Datasets: random access to examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/data/field.h"

namespace belfry::data {

// The memory of one example, which Dataset::Read fills: a place for each field, in the order of Dataset::fields().
class Example {
 public:
  explicit Example(absl::Span<std::byte* const> places) : places_(places) {}
  // The place of field `i`, with room for fields()[i].shape.elements() elements, row-major. REQUIRES: T is the field's
  // type.
  template <class T>
  T* field(size_t i) const {
    return reinterpret_cast<T*>(places_[i]);
  }
  std::byte* raw(size_t i) const { return places_[i]; }

 private:
  const absl::Span<std::byte* const> places_;
};

// The seed and epoch for which an example is drawn, in a data set whose examples vary, such as random crops of
// pictures.
struct Variation {
  uint64_t seed = 0;
  int64_t epoch = 0;
};

// A set of examples with random access. Immutable, so any number of threads may read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  // The fields that each example has, of any dtype and shape. The same at each call.
  virtual absl::Span<const Field> fields() const = 0;

  // Writes all fields of example `index`. Errors name the file and the record. An exception, which a library that it
  // uses may throw, is an Internal error of the reader, with its what() and the index; std::bad_alloc is
  // ResourceExhausted. REQUIRES: 0 <= index < size().
  virtual absl::Status Read(int64_t index, const Example& example) const = 0;
  // True if examples vary from epoch to epoch. A Prefetcher then reads them with ReadVaried.
  virtual bool varies() const { return false; }
  // Like Read, but draws the example for an epoch. The same (seed, epoch, index) always gives the same bytes.
  virtual absl::Status ReadVaried(int64_t index, const Variation&, const Example& example) const {
    return Read(index, example);
  }
};

// Calls `read`, which reads example `index`, with exceptions as errors.
absl::Status CatchExceptions(int64_t index, absl::FunctionRef<absl::Status()> read);

// Dataset::Read or, with a variation, ReadVaried, with exceptions as errors. For all that read examples.
absl::Status ReadInto(const Dataset& dataset, int64_t index, const Example& example,
                      const std::optional<Variation>& variation = {});

// Example `index`: a new tensor for each field. Errors: those of Dataset::Read. REQUIRES: 0 <= index < size().
absl::StatusOr<std::vector<Tensor>> ReadExample(const Dataset& dataset, int64_t index);

// A dataset's fields, the number of its examples, and a checksum of some of them, as a line: different lines mean
// different data. Errors: those of Dataset::Read.
absl::StatusOr<std::string> DataLine(const Dataset& dataset);

}  // namespace belfry::data
