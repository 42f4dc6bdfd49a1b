// Shapes of tensors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace belfry {

// A list of extents, outermost first. The rank is always known. An extent may be unknown (kUnknown, printed "?") while
// a graph is built, but never once a plan is compiled. A scalar has rank 0 and one element. A value type;
// thread-compatible.
//
// The shape of what a builder returned after an error is invalid: it has rank 0, each of its extents is kUnknown, and
// so is its number of elements. So is a shape that was computed from one and has a negative extent. A model that
// computes with shapes thus needs no checks of its own; the graph's first error is reported where a session is made.
class Shape {
 public:
  static constexpr int64_t kUnknown = -1;

  Shape() = default;  // a scalar
  // Invalid if an extent is below 0 and not kUnknown. Use Shape::Make for shapes from input.
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(absl::Span<const int64_t> dims);
  // Like the constructor, but InvalidArgument for a negative extent, or for more than 2^59 elements (counting neither
  // extents of 0 nor unknown ones).
  static absl::StatusOr<Shape> Make(absl::Span<const int64_t> dims);

  static Shape Invalid();
  bool valid() const { return valid_; }

  int rank() const { return static_cast<int>(dims_.size()); }
  // Extent of `axis`; a negative axis counts from the end. REQUIRES: -rank() <= axis < rank().
  int64_t dim(int axis) const;
  int64_t operator[](int axis) const { return dim(axis); }
  void set_dim(int axis, int64_t extent);
  absl::Span<const int64_t> dims() const { return dims_; }

  // True if every extent is known.
  bool known() const;
  // Product of the extents, 1 for a scalar. REQUIRES: known().
  int64_t elements() const;
  // Product of the extents of axes [begin, end). REQUIRES: 0 <= begin <= end <= rank(), and those extents are known.
  int64_t elements(int begin, int end) const;

  // True if the ranks are equal, and the extents too wherever both are known.
  bool CompatibleWith(const Shape& other) const;
  // The shape that satisfies both; InvalidArgument if they are not compatible.
  absl::StatusOr<Shape> Merge(const Shape& other) const;
  // This shape with `extent` inserted before `axis`. An axis of rank() appends; a negative one counts from the end of
  // the result.
  Shape Insert(int axis, int64_t extent) const;
  // This shape without `axis`.
  Shape Remove(int axis) const;

  // "[128,24,24,3]", "[?,10]", "[]", "[invalid]".
  std::string ToString() const;
  bool operator==(const Shape& other) const { return dims_ == other.dims_ && valid_ == other.valid_; }
  bool operator!=(const Shape& other) const { return !(*this == other); }

 private:
  absl::InlinedVector<int64_t, 4> dims_;  // none if it is invalid
  bool valid_ = true;
};

// The result shape of a binary element-wise op under NumPy's rules: axes are aligned at the last one, and an extent of
// 1 stretches. InvalidArgument names both shapes if they do not broadcast, or the result if it is larger than
// Shape::Make allows.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// Saturating sum and product of extents, for values that come from attributes and may be anything. On overflow the
// result is the largest or smallest int64, which Shape::Make refuses.
int64_t AddExtents(int64_t a, int64_t b);
int64_t MultiplyExtents(int64_t a, int64_t b);

// `axis` counted from the front: -1 becomes rank - 1. InvalidArgument outside [-rank, rank).
absl::StatusOr<int> CanonicalAxis(int64_t axis, int rank);

}  // namespace belfry
