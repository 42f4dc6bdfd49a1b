// Extents of tensors that a graph makes, which may be taken from other tensors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "framework/graph/node.h"

namespace belfry::ops {

// An extent: a number, or the extent of another tensor's axis, which may still be unknown while the graph is built (the
// number of examples, the length of a sequence). Plans know all extents, so no step pays for it. A value type.
class Extent {
 public:
  Extent(int64_t size) : size_(size) {}  // NOLINT: implicit on purpose
  // The extent of `axis` of `tensor`, whose elements are not read; negative axes count from the end.
  static Extent Of(Output tensor, int64_t axis);

  // Arithmetic: Extent::Of(x, 1) * 2 - 1. A division must leave no remainder and the result must not be negative;
  // otherwise the node that uses the extent fails, if need be when a plan is compiled.
  Extent operator*(int64_t factor) const;
  Extent operator/(int64_t divisor) const;
  Extent operator+(int64_t more) const;
  Extent operator-(int64_t less) const { return *this + -less; }

  // The number; Shape::kUnknown if it depends on an extent that is unknown so far, or is an error.
  int64_t size() const;

  bool taken() const { return taken_; }  // whether it is a tensor's
  Output tensor() const { return tensor_; }
  int64_t axis() const { return axis_; }
  // The extent is (that of the tensor * factor + offset) / divisor.
  int64_t factor() const { return factor_; }
  int64_t offset() const { return offset_; }
  int64_t divisor() const { return divisor_; }

 private:
  int64_t size_ = 0;  // if not taken
  bool taken_ = false;
  Output tensor_;
  int64_t axis_ = 0, factor_ = 1, offset_ = 0, divisor_ = 1;
};

// The extents of a tensor. A Shape converts to them, and so does a list:
//   Reshape(scope, x, {Extent::Of(x, 0), Extent::Of(x, 1), 8, 16})   RandomNormal(scope, {Extent::Of(x, 0), 64})
class Extents {
 public:
  Extents() = default;                                           // of a scalar
  Extents(std::initializer_list<Extent> list) : list_(list) {}   // NOLINT: implicit on purpose
  Extents(std::vector<Extent> list) : list_(std::move(list)) {}  // NOLINT
  Extents(const Shape& shape);                                   // NOLINT

  const std::vector<Extent>& list() const { return list_; }
  // What is known of the shape so far: an extent that is -1, or that of a tensor and still unknown, is kUnknown.
  Shape shape() const;
  // Whether shape() is all that there is to know: no extent waits for that of a tensor.
  bool settled() const;

 private:
  std::vector<Extent> list_;
  bool valid_ = true;
};

}  // namespace belfry::ops
