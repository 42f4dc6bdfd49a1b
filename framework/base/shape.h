// The extents of a tensor.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace belfry {

// A list of extents, outermost first. The rank is always known; an extent may be unknown (kUnknown, printed "?") while
// a graph is built, and never is once a plan is compiled. A scalar has rank 0 and one element. A value;
// thread-compatible.
class Shape {
 public:
  static constexpr int64_t kUnknown = -1;

  Shape() = default;  // a scalar
  // Each extent is at least 0, or kUnknown. A CHECK guards it: a shape from input is checked with Shape::Make.
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(absl::Span<const int64_t> dims);
  // As the constructor, and InvalidArgument for a negative extent or more than 2^59 elements (extents of 0
  // and kUnknown left out).
  static absl::StatusOr<Shape> Make(absl::Span<const int64_t> dims);

  int rank() const { return static_cast<int>(dims_.size()); }
  // Extent of `axis`; a negative axis counts from the end. REQUIRES: -rank() <= axis < rank().
  int64_t dim(int axis) const;
  int64_t operator[](int axis) const { return dim(axis); }
  void set_dim(int axis, int64_t extent);
  absl::Span<const int64_t> dims() const { return dims_; }

  // True when every extent is known.
  bool known() const;
  // Product of the extents, 1 for a scalar. REQUIRES: known().
  int64_t elements() const;
  // Product of the extents of axes [begin, end). REQUIRES: 0 <= begin <= end <= rank(), and these are known.
  int64_t elements(int begin, int end) const;

  // Equal rank, and extents equal wherever both are known.
  bool CompatibleWith(const Shape& other) const;
  // The shape that both describe; InvalidArgument if they are not compatible.
  absl::StatusOr<Shape> Merge(const Shape& other) const;
  // This shape with `extent` inserted before `axis` (rank() appends; negative counts from the end of the result).
  Shape Insert(int axis, int64_t extent) const;
  // This shape without `axis`.
  Shape Remove(int axis) const;

  // "[128,24,24,3]", "[?,10]", "[]".
  std::string ToString() const;
  bool operator==(const Shape& other) const { return dims_ == other.dims_; }
  bool operator!=(const Shape& other) const { return !(*this == other); }

 private:
  absl::InlinedVector<int64_t, 4> dims_;
};

// The shape of a binary element-wise op's result under NumPy's rules: aligned at the last axis, an extent of 1
// stretches. InvalidArgument names both shapes when they do not broadcast, and the result when it is larger than
// Shape::Make allows.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// The sum and the product of extents that an attribute may set to anything: the largest or smallest int64 where they
// do not fit, which Shape::Make refuses.
int64_t AddExtents(int64_t a, int64_t b);
int64_t MultiplyExtents(int64_t a, int64_t b);

// `axis` counted from the front: -1 becomes rank - 1. InvalidArgument outside [-rank, rank).
absl::StatusOr<int> CanonicalAxis(int64_t axis, int rank);

}  // namespace belfry
