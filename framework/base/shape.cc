#include "framework/base/shape.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "framework/base/check.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

// Even with 8-byte elements, the size in bytes stays within an int64.
constexpr int64_t kMaxElements = int64_t{1} << 59;

}  // namespace

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(absl::MakeConstSpan(dims.begin(), dims.size())) {}

Shape::Shape(absl::Span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < kUnknown; })) *this = Invalid();
}

Shape Shape::Invalid() {
  Shape shape;
  shape.valid_ = false;
  return shape;
}

absl::StatusOr<Shape> Shape::Make(absl::Span<const int64_t> dims) {
  const auto invalid = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("Shape [", absl::StrJoin(dims, ","), "] has ", why));
  };
  int64_t elements = 1;
  for (int64_t dim : dims) {
    if (dim < kUnknown) return invalid("a negative extent");
    if (dim > 0 && elements > kMaxElements / dim) return invalid("more than 2^59 elements");
    if (dim > 0) elements *= dim;
  }
  return Shape(dims);
}

int64_t Shape::dim(int axis) const {
  if (!valid_) return kUnknown;
  if (axis < 0) axis += rank();
  BELFRY_CHECK(axis >= 0 && axis < rank());
  return dims_[axis];
}

void Shape::set_dim(int axis, int64_t extent) {
  if (!valid_) return;
  if (axis < 0) axis += rank();
  BELFRY_CHECK(axis >= 0 && axis < rank() && extent >= kUnknown);
  dims_[axis] = extent;
}

bool Shape::known() const {
  return valid_ && std::none_of(dims_.begin(), dims_.end(), [](int64_t dim) { return dim == kUnknown; });
}

int64_t Shape::elements() const { return elements(0, rank()); }

int64_t Shape::elements(int begin, int end) const {
  if (!valid_) return kUnknown;
  BELFRY_CHECK(0 <= begin && begin <= end && end <= rank());
  int64_t product = 1;
  for (int axis = begin; axis < end; ++axis) {
    BELFRY_CHECK(dims_[axis] >= 0);
    product *= dims_[axis];
  }
  return product;
}

bool Shape::CompatibleWith(const Shape& other) const {
  if (rank() != other.rank() || !valid_ || !other.valid_) return false;
  for (int axis = 0; axis < rank(); ++axis) {
    if (dims_[axis] != other.dims_[axis] && dims_[axis] != kUnknown && other.dims_[axis] != kUnknown) return false;
  }
  return true;
}

absl::StatusOr<Shape> Shape::Merge(const Shape& other) const {
  if (!CompatibleWith(other)) {
    return absl::InvalidArgumentError(absl::StrCat("Shapes ", ToString(), " and ", other.ToString(), " do not agree"));
  }
  Shape merged = *this;
  for (int axis = 0; axis < rank(); ++axis) merged.dims_[axis] = std::max(dims_[axis], other.dims_[axis]);
  return merged;
}

Shape Shape::Insert(int axis, int64_t extent) const {
  if (!valid_) return *this;
  if (axis < 0) axis += rank() + 1;
  BELFRY_CHECK(axis >= 0 && axis <= rank());
  Shape result = *this;
  result.dims_.insert(result.dims_.begin() + axis, extent);
  return result;
}

Shape Shape::Remove(int axis) const {
  if (!valid_) return *this;
  if (axis < 0) axis += rank();
  BELFRY_CHECK(axis >= 0 && axis < rank());
  Shape result = *this;
  result.dims_.erase(result.dims_.begin() + axis);
  return result;
}

std::string Shape::ToString() const {
  if (!valid_) return "[invalid]";
  return absl::StrCat("[",
                      absl::StrJoin(dims_, ",",
                                    [](std::string* out, int64_t dim) {
                                      dim == kUnknown ? absl::StrAppend(out, "?") : absl::StrAppend(out, dim);
                                    }),
                      "]");
}

absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  const int offset = longer.rank() - shorter.rank();
  for (int axis = 0; axis < shorter.rank(); ++axis) {
    const int64_t x = longer[axis + offset], y = shorter[axis];
    if (x == y) continue;
    if (x == 1) {
      result.set_dim(axis + offset, y);
    } else if (y == 1) {
      result.set_dim(axis + offset, x);
    } else if (x == Shape::kUnknown || y == Shape::kUnknown) {
      // The known extent is not 1, so it is the result's extent whatever the unknown one turns out to be.
      result.set_dim(axis + offset, std::max(x, y));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("Shapes ", a.ToString(), " and ", b.ToString(), " do not broadcast"));
    }
  }
  return Shape::Make(result.dims());
}

int64_t AddExtents(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

int64_t MultiplyExtents(int64_t a, int64_t b) {
  int64_t product;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a > 0) == (b > 0) ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

absl::StatusOr<int> CanonicalAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(absl::StrCat("Axis ", axis, " is outside [", -rank, ", ", rank, ")"));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace belfry
