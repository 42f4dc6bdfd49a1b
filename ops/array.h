// Ops that create, move and reshape tensors without arithmetic.
//
// Negative axes count from the end. Unless stated otherwise, an op accepts every dtype, and tensors without elements.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "ops/extents.h"
#include "ops/operand.h"

namespace belfry::ops {

// The C++ types that tensor elements may have.
template <class T>
concept ElementType = requires {
  DTypeOf<T>::value;
};

// --- Constants and inputs ---

// A constant fixed when the graph is built. The tensor is copied.
Output Const(OpScope scope, const Tensor& value);
// A scalar constant: Const(scope, 0.5f).
template <ElementType T>
Output Const(OpScope scope, T value) {
  return Const(scope, Tensor::Scalar<T>(value));
}
// Const(scope, {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {2, 3}); without a shape, a vector. REQUIRES: the number of values
// equals the number of elements.
template <ElementType T>
Output Const(OpScope scope, std::initializer_list<T> values, const Shape& shape) {
  return Const(scope, Tensor::Of<T>(values, shape));
}
template <ElementType T>
Output Const(OpScope scope, std::initializer_list<T> values) {
  return Const(scope, Tensor::Of<T>(values));
}

// An input that is fed when the session runs. Extents of `shape` may be unknown: Placeholder(scope, DType::kFloat32,
// {-1, 32, 32, 3}).
Output Placeholder(OpScope scope, DType dtype, const Shape& shape);

// A tensor whose elements all equal `value`, converted to `dtype`. Every extent must be known.
Output Fill(OpScope scope, const Shape& shape, double value, DType dtype = DType::kFloat32);
// Zeros, or ones, with x's shape and dtype; the elements of x are not read.
Output ZerosLike(OpScope scope, Output x);
Output OnesLike(OpScope scope, Output x);
// The vector [start, start + delta, ...], excluding `limit`: max(0, ceil((limit - start) / delta)) elements. If the
// dtype cannot hold them (fractions, too large, or so large that neighbours are rounded alike) that is an error of the
// node. Integers are added as such.
Output Range(OpScope scope, double start, double limit, double delta = 1, DType dtype = DType::kInt32);

// --- The same elements in another shape, at no cost ---

Output Identity(OpScope scope, Output x);
// Returns x and blocks its gradient.
Output StopGradient(OpScope scope, Output x);
// At most one extent may be -1: it is inferred from the number of elements of x. Others may be taken from tensors:
// Reshape(scope, x, {Extent::Of(x, 0), -1, 8, 16}).
Output Reshape(OpScope scope, Output x, const Extents& extents);
// x with the shape of `like`, whose elements are not read and which may have any dtype.
Output ReshapeLike(OpScope scope, Output x, Output like);
// Makes one axis of the axes `first` to `last`: [2, 3, 4, 5] becomes [2, 12, 5] with 1 and 2. Extents may be unknown.
Output MergeAxes(OpScope scope, Output x, int64_t first, int64_t last);
// Inserts an axis of extent 1 at position `axis` of the result: [4, 5] becomes [4, 1, 5] with axis 1, and [4, 5, 1]
// with axis -1.
Output ExpandDims(OpScope scope, Output x, int64_t axis);
// Removes the given axes, whose extents must be 1; without `axes`, every axis of extent 1.
Output Squeeze(OpScope scope, Output x, std::vector<int64_t> axes = {});

// --- Types and shapes ---

// Floats become integers by truncation towards zero; NaN becomes 0, and values out of range become the nearest integer
// that fits. Integers become narrower ones modulo 2^bits. Conversion to bool tests for non-zero. The gradient flows
// between floating-point dtypes only. Returns x itself if it already has the dtype.
Output Cast(OpScope scope, Output x, DType dtype);
// The extents of x, a vector of int32 or int64. Not differentiable.
Output ShapeOf(OpScope scope, Output x, DType dtype = DType::kInt32);

// --- Broadcasting: shapes align at the last axis, extents of 1 stretch ---

// x broadcast to `shape`; an extent of -1 keeps x's.
Output BroadcastTo(OpScope scope, Output x, const Shape& shape);
// x broadcast to the shape of `like`, whose elements are not read and which may have any dtype.
Output BroadcastLike(OpScope scope, Output x, Output like);
// x repeated `multiples[axis]` times along each axis.
Output Tile(OpScope scope, Output x, std::vector<int64_t> multiples);
// condition ? a : b for each element; `condition` is bool. All three broadcast. The operand that is not selected gets a
// gradient of exactly 0, never NaN. What it was computed from may still get NaN, as in other frameworks: that 0 times
// an infinite derivative is NaN, so Select(x > 0, Sqrt(x), x) has the gradient NaN at -1. The same holds for elements
// that Slice or Gather leave out. The way out is to select before the singular function as well, and give it an
// argument at which it is smooth: Select(x > 0, Sqrt(Select(x > 0, x, 1)), x).
Output Select(OpScope scope, Output condition, const Operand& a, const Operand& b);

// --- Rearranging ---

// Axis i of the result is axis perm[i] of x; without perm, the axes are reversed.
Output Transpose(OpScope scope, Output x, std::vector<int64_t> perm = {});
// Images [N, H, W, block * block * C] as [N, H * block, W * block, C]: the channels of a pixel become a block of
// pixels, row by row (TensorFlow's order: channel (i * block + j) * C + c goes to pixel (i, j), channel c).
// SpaceToDepth undoes it; extents that `block` does not divide are errors.
Output DepthToSpace(OpScope scope, Output x, int64_t block);
Output SpaceToDepth(OpScope scope, Output x, int64_t block);
// Concatenates tensors along an existing axis; all other extents must agree.
Output Concat(OpScope scope, absl::Span<const Output> values, int64_t axis);
// Stacks tensors of one shape along a new axis, at position `axis` of the result.
Output Stack(OpScope scope, absl::Span<const Output> values, int64_t axis = 0);
// Splits x into `num` equal parts along `axis`.
std::vector<Output> Split(OpScope scope, Output x, int64_t axis, int64_t num);
// Splits x into parts of the given extents along `axis`. One of them may be -1: the remainder.
std::vector<Output> Split(OpScope scope, Output x, int64_t axis, std::vector<int64_t> sizes);
// Splits x along `axis` into its slices, and removes that axis from them. `num` is needed only if that extent is
// unknown.
std::vector<Output> Unstack(OpScope scope, Output x, int64_t axis = 0, int64_t num = -1);

// --- Parts ---

// The box of shape `size` that starts at `begin`; a size of -1 extends to the end of its axis. InvalidArgument if the
// box leaves x.
Output Slice(OpScope scope, Output x, std::vector<int64_t> begin, std::vector<int64_t> size);
// Elements [begin, begin + size) of x in row-major order, as a tensor of rank 1. A view, so nothing is copied; for that
// `begin` must be a multiple of kAlignment bytes (framework/base/alignment.h).
Output FlatSlice(OpScope scope, Output x, int64_t begin, int64_t size);
// Python's x[begin:end:stride, ...] for the leading axes; the remaining axes are taken whole. Negative bounds count
// from the end, and bounds outside x are clamped. kSliceEnd is the far end: with stride -1, StridedSlice(x,
// {kSliceEnd}, {-kSliceEnd}, {-1}) reverses. Without `strides`, every stride is 1.
inline constexpr int64_t kSliceEnd = std::numeric_limits<int64_t>::max();
Output StridedSlice(OpScope scope, Output x, std::vector<int64_t> begin, std::vector<int64_t> end,
                    std::vector<int64_t> strides = {});

// Number of elements to add before and after an axis; negative numbers remove elements.
struct AxisPadding {
  int64_t before = 0;
  int64_t after = 0;
};
// x surrounded by `value`: Pad(scope, images, {{0, 0}, {4, 4}, {4, 4}, {0, 0}}).
Output Pad(OpScope scope, Output x, std::vector<AxisPadding> paddings, double value = 0);
// x continued beyond its ends by itself, as on a ring or a torus. Paddings are at least 0; padded axes have a known
// extent, and at least as many elements as are added on a side.
Output CircularPad(OpScope scope, Output x, const std::vector<AxisPadding>& paddings);

// The slices of `params` at `indices`, which are int32 or int64; the shape of `indices` replaces `axis`: params [V, D]
// and indices [N, L] give [N, L, D]. On the CPU an index out of range fails the step; on a GPU it gives zeros and
// receives no gradient. The gradient accumulates in the order of the indices, in the dtype of params (on a GPU in float
// for the 16-bit dtypes).
Output Gather(OpScope scope, Output params, Output indices, int64_t axis = 0);

// The elements of x at `indices` along an axis, as NumPy's take_along_axis and PyTorch's gather:
// y[n, i, d] = x[n, indices[n, i, d], d] for axis 1. `indices`, int32 or int64, has the rank of x, and its extents but
// that of the axis. The value of each action taken: TakeAlong(scope, values, ExpandDims(scope, actions, 1), 1).
// Indices out of range, and the gradient, are as for Gather.
Output TakeAlong(OpScope scope, Output x, Output indices, int64_t axis);

// The slices of `params` at indices of its leading axes: params [V, W, D] and indices [N, 2] (int32 or int64) give
// [N, D]. The last extent of `indices` must be known; indices out of range, and the gradient, are as for Gather.
Output GatherND(OpScope scope, Output params, Output indices);
// A tensor of zeros of the given extents, to which `updates` are added at `indices` of its leading axes: extents
// [V, W, D], indices [N, 2] and updates [N, D]. Slices with equal indices are added up, in ascending order of N and
// rounded once. Floats, int32 and int64. On the CPU an index out of range fails the step; on a GPU it is ignored.
Output ScatterND(OpScope scope, Output indices, Output updates, const Extents& extents);
// The sums of the slices of data [N, ...] that have the same number in segments [N] (int32 or int64, in [0, count)):
// [count, ...], with zeros for numbers that do not occur. The numbers need not be sorted. Otherwise as ScatterND.
Output SegmentSum(OpScope scope, Output data, Output segments, const Extent& count);

struct OneHotOptions {
  double on_value = 1;
  double off_value = 0;
  int64_t axis = -1;  // position in the result
  DType dtype = DType::kFloat32;
};
// Adds an axis of extent `depth`: on_value at the index (int32, int64 or uint8), off_value elsewhere. An index outside
// [0, depth) gives off_value everywhere. Not differentiable.
Output OneHot(OpScope scope, Output indices, int64_t depth, const OneHotOptions& options = {});

}  // namespace belfry::ops
