// Ops that make, move and reshape elements without computing with them. Axes count from the front, or from the end if
// negative. Unless said otherwise an op takes every dtype, and tensors without elements.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::ops {

// C++ types of tensor elements.
template <class T>
concept ElementType = requires {
  DTypeOf<T>::value;
};

// --- Constants and inputs ---

// A value fixed when the graph is built. The tensor is copied.
Output Const(OpScope scope, const Tensor& value);
// A scalar: Const(scope, 0.5f).
template <ElementType T>
Output Const(OpScope scope, T value) {
  return Const(scope, Tensor::Scalar<T>(value));
}
// Const(scope, {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {2, 3}); without a shape, a vector. REQUIRES: as many values as
// elements.
template <ElementType T>
Output Const(OpScope scope, std::initializer_list<T> values, const Shape& shape) {
  return Const(scope, Tensor::Of<T>(values, shape));
}
template <ElementType T>
Output Const(OpScope scope, std::initializer_list<T> values) {
  return Const(scope, Tensor::Of<T>(values));
}

// What is fed. Extents of `shape` may be unknown: Placeholder(scope, DType::kFloat32, {-1, 32, 32, 3}).
Output Placeholder(OpScope scope, DType dtype, const Shape& shape);

// A tensor of one value, converted to `dtype`. Every extent is known.
Output Fill(OpScope scope, const Shape& shape, double value, DType dtype = DType::kFloat32);
// Zeros, or ones, of x's shape and dtype; x itself is not read.
Output ZerosLike(OpScope scope, Output x);
Output OnesLike(OpScope scope, Output x);
// [start, start + delta, ...] up to but without `limit`: ceil((limit - start) / delta) numbers, or none.
Output Range(OpScope scope, double start, double limit, double delta = 1, DType dtype = DType::kInt32);

// --- The same elements under another shape: these cost nothing ---

Output Identity(OpScope scope, Output x);
// x, through which no gradient flows.
Output StopGradient(OpScope scope, Output x);
// At most one extent is -1: what is left of x's elements.
Output Reshape(OpScope scope, Output x, const Shape& shape);
// x in the shape of `like` (of any dtype), which is not read.
Output ReshapeLike(OpScope scope, Output x, Output like);
// A new axis of extent 1: before `axis`, counted in the result. [4, 5] with axis 1 becomes [4, 1, 5], with -1 [4, 5,
// 1].
Output ExpandDims(OpScope scope, Output x, int64_t axis);
// Without these axes, whose extent is 1; without any given, all whose extent is 1.
Output Squeeze(OpScope scope, Output x, std::vector<int64_t> axes = {});

// --- Types and shapes ---

// Floats to integers: towards zero, NaN to 0, the rest to the nearest that fits. Integers to narrower ones: modulo. To
// bool: whether it is not zero. A gradient flows between floats. x itself if it has the dtype already.
Output Cast(OpScope scope, Output x, DType dtype);
// x's extents as a vector of int32 or int64. Not differentiable.
Output ShapeOf(OpScope scope, Output x, DType dtype = DType::kInt32);

// --- Broadcasting: aligned at the last axis, an extent of 1 stretches ---

// x stretched to `shape`; an extent of -1 keeps x's.
Output BroadcastTo(OpScope scope, Output x, const Shape& shape);
// x stretched to the shape of `like` (of any dtype), which is not read.
Output BroadcastLike(OpScope scope, Output x, Output like);
// x repeated `multiples[axis]` times along each axis.
Output Tile(OpScope scope, Output x, std::vector<int64_t> multiples);
// condition ? a : b, element by element; `condition` is bool. The three broadcast, and the choice that was not taken
// gets no gradient, not even a NaN.
Output Select(OpScope scope, Output condition, Output a, Output b);

// --- Rearranging ---

// Axis i of the result is axis perm[i] of x; without perm, the axes are reversed.
Output Transpose(OpScope scope, Output x, std::vector<int64_t> perm = {});
// Joined along an axis that they have; the other extents agree.
Output Concat(OpScope scope, absl::Span<const Output> values, int64_t axis);
// Joined along a new axis, counted in the result; the shapes agree.
Output Stack(OpScope scope, absl::Span<const Output> values, int64_t axis = 0);
// `num` equal parts along `axis`.
std::vector<Output> Split(OpScope scope, Output x, int64_t axis, int64_t num);
// Parts of the given extents along `axis`; one of them may be -1: what is left.
std::vector<Output> Split(OpScope scope, Output x, int64_t axis, std::vector<int64_t> sizes);
// The slices of x along `axis`, which they do not have. `num` need only be given if that extent is unknown.
std::vector<Output> Unstack(OpScope scope, Output x, int64_t axis = 0, int64_t num = -1);

// --- Parts ---

// The box of `size` that begins at `begin`; a size of -1 goes to the end of its axis. A box that leaves x is an error.
Output Slice(OpScope scope, Output x, std::vector<int64_t> begin, std::vector<int64_t> size);
// Python's x[begin:end:stride, ...] for the leading axes, the others whole: negative borders count from the end,
// borders beyond it stop there. kSliceEnd is the far end: with stride -1, StridedSlice(x, {kSliceEnd}, {-kSliceEnd},
// {-1}) reverses. Without strides they are 1.
inline constexpr int64_t kSliceEnd = std::numeric_limits<int64_t>::max();
Output StridedSlice(OpScope scope, Output x, std::vector<int64_t> begin, std::vector<int64_t> end,
                    std::vector<int64_t> strides = {});

// How many elements to add before and after an axis; a negative number takes as many away.
struct AxisPadding {
  int64_t before = 0;
  int64_t after = 0;
};
// x with `value` around it: Pad(scope, images, {{0, 0}, {4, 4}, {4, 4}, {0, 0}}).
Output Pad(OpScope scope, Output x, std::vector<AxisPadding> paddings, double value = 0);

// The slices of `params` at `indices` (int32 or int64, of any shape, which takes the place of `axis`):
// params [V, D] and indices [N, L] give [N, L, D]. An index outside the axis ends the step with an error on the CPU;
// on a GPU it gives zeros, and its gradient goes nowhere. The gradient adds up in the order of the indices, in the
// dtype of params (on a GPU in float where that has 16 bits).
Output Gather(OpScope scope, Output params, Output indices, int64_t axis = 0);

struct OneHotOptions {
  double on_value = 1;
  double off_value = 0;
  int64_t axis = -1;  // of the result
  DType dtype = DType::kFloat32;
};
// A new axis of extent `depth`: on_value at the index (int32, int64 or uint8), off_value elsewhere, and everywhere for
// an index outside [0, depth). Not differentiable.
Output OneHot(OpScope scope, Output indices, int64_t depth, const OneHotOptions& options = {});

}  // namespace belfry::ops
