// Copies of N-dimensional boxes between two strided arrays, the basis of transposing, slicing, padding, tiling and
// broadcasting on CPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/shape.h"

namespace belfry::ops {

// An element of any dtype, moved as an unsigned integer of its size.
template <class Bits>
struct __attribute__((may_alias)) RawElement {
  Bits bits;
};

// One axis of a copy: its extent, and the distance in elements between neighbours in the source and in the destination.
// A source stride of 0 repeats an element; strides may be negative.
struct CopyAxis {
  int64_t extent = 1;
  int64_t from = 0;
  int64_t to = 0;
};

// A copy of an N-dimensional box, prepared for given extents and strides. Immutable and thread-safe.
class StridedCopy {
 public:
  static constexpr int kMaxAxes = 16;  // of outer_

  // `element_size` is 1, 2, 4 or 8 bytes. Axes are in the order of the destination, outermost first; offsets give the
  // position of the first element, in elements. REQUIRES: the elements of the box have distinct places in the
  // destination. InvalidArgument if more than kMaxAxes axes remain after merging those that are contiguous in both
  // arrays.
  static absl::StatusOr<StridedCopy> Make(size_t element_size, std::vector<CopyAxis> axes, int64_t from_offset = 0,
                                          int64_t to_offset = 0);

  // REQUIRES: the arrays do not overlap. Neither allocates nor locks; large copies run on the threads of ParallelFor.
  void Run(const void* from, void* to) const;

  int64_t elements() const { return elements_; }

 private:
  enum class Inner { kContiguous, kRepeat, kTransposed, kStrided };

  template <class U>
  void RunAs(const U* from, U* to) const;
  template <class U>
  void CopyBlock(const U* from, U* to, int64_t rows, int64_t columns) const;

  size_t element_size_ = 0;
  int64_t from_offset_ = 0, to_offset_ = 0;
  int64_t elements_ = 0;
  CopyAxis rows_, columns_;  // the two innermost loops, copied in blocks
  int64_t block_rows_ = 1, block_columns_ = 1;
  Inner inner_ = Inner::kContiguous;
  std::vector<CopyAxis> outer_;  // the other axes, then blocks of rows, then blocks of columns
  int64_t items_ = 0;            // total number of blocks
};

// Row-major strides, in elements. REQUIRES: the shape is known.
std::vector<int64_t> RowMajorStrides(const Shape& shape);

}  // namespace belfry::ops
