// Optimizer updates, each one pass over memory, with gradient clipping, moving averages and loss scaling.
//
// In every gradient update the variable, its slots and the gradient have one floating-point dtype; the variable, its
// slots and a dense gradient have one shape; float16 and bfloat16 are computed in float32 and rounded when stored. The
// learning rate is a float32 scalar input, so that a schedule is part of the graph; every other hyper-parameter is an
// attribute. `weight_decay` adds weight_decay * variable to the gradient, which is L2 regularisation, except in
// ApplyAdamW. Each update returns the variable after the update; a gradient that would flow through one is an error. A
// NaN in a gradient reaches the variable.
//
// In the formulas, v is the variable, g its gradient (including weight decay) and lr the learning rate.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "framework/graph/variable.h"

namespace belfry::ops {

// The gradient of a variable: dense, with its shape; or sparse, for a variable [V, ...] of which few rows were used, as
// an embedding (TensorFlow's IndexedSlices): `value` [K, ...] has rows, and row k is the gradient of the variable's row
// indices[k]. The other rows have none. `indices` [K] is int32 or int64 and holds no index twice; rows of a negative
// index are skipped, those of V or more are OutOfRange on CPUs and skipped on GPUs. Updates by a sparse gradient are
// lazy: they touch these rows of the variable and of its slots only, with weight decay, as if other rows were not
// there; so slots of other rows do not decay, which a dense gradient of zeros would make them do (for Adam: "lazy
// Adam").
struct Gradient {
  Gradient(Output dense) : value(dense) {}           // NOLINT(google-explicit-constructor): the usual case
  Gradient(const Variable& dense) : value(dense) {}  // NOLINT(google-explicit-constructor): likewise
  Gradient(Output rows, Output rows_indices) : value(rows), indices(rows_indices) {}
  bool sparse() const { return indices.valid(); }
  Output value;
  Output indices;
};

// Adds up the rows of equal indices, in ascending order of their positions: a sparse gradient as Gradient wants it,
// from rows [K, ...] and indices [K] with duplicates. The sum stands at the first position of its index; the others
// have index -1 and zeros, as rows of negative indices have. 16-bit types are added up in float32. GPUs add up groups
// of 16 to 256 rows first. A gradient that would flow through it is an error.
Gradient SumRows(OpScope scope, Output rows, Output indices);

// The means over towers instead of sums: row k is from tower towers[k], in [0, N) and ascending, and
// sum(weights[towers[k]] rows[k]) / sum(weights) the mean of an index. `towers` [K] has the type of the indices,
// weights [N] are float32; rows of towers of weight 0 are skipped. The same bits as collective.h's AllReduceMean of the
// dense gradients, except float64 on GPUs.
Gradient MeanRows(OpScope scope, Output rows, Output indices, Output towers, Output weights);

// Sums over towers that one device runs one after the other, in the order of the tree in which the averager adds up
// towers (MakeLocalCollective in framework/collective/collective.h). Tower `index`, an int64 scalar in [0, series),
// adds weight * value to the sums that the variable `sums` [L, ...] of transient state, L = SeriesLevels(series),
// holds, float32, or float64 for values of float64. After the last tower, sums[0] is the sum of all. Nothing needs to
// be cleared before the first. `weight` is a float32 scalar; of weight 0, `value` is left out whatever it holds.
// Returns `sums`. Another index is OutOfRange on CPUs, and changes nothing on GPUs; likewise in AssignRow.
Output AddToSeries(OpScope scope, const Variable& sums, Output value, Output weight, Output index, int64_t series);
// The number of sums that wait in a series of at least two towers: log2 of their number, rounded up.
int64_t SeriesLevels(int64_t series);
// variable[index] = value, for a variable [N, ...] and a value [...] of any dtype. Returns the variable.
Output AssignRow(OpScope scope, const Variable& variable, Output value, Output index);
// sums[0] /= total, for a variable [L, ...] whose first row holds the sum of a series, and a float64 scalar, which is
// rounded to the variable's dtype first. Returns the variable.
Output DivideSeries(OpScope scope, const Variable& sums, Output total);
// The sum of float32 `weights` [N] in ascending order, a float64 scalar. InvalidArgument on CPUs, and NaN on GPUs, for
// a weight below 0 and, with `message`, if all are 0.
Output TotalWeight(OpScope scope, Output weights, absl::string_view message);

// A sparse gradient in a form that towers of several processes can average.
struct DenseGradient {
  Output value;    // [V, ...]: zeros in rows that have no index
  Output touched;  // float32 [V]: 1 for rows that have one, otherwise 0
};
// `rows`: the V of the variable. Indices of V or more are OutOfRange on CPUs and skipped on GPUs.
DenseGradient DenseRows(OpScope scope, const Gradient& sparse, int64_t rows);
// The indices of a sparse gradient of elements [begin, begin + size) of a variable whose rows have `width` elements, as
// a variable of that many rows of one: i where touched[(begin + i) / width] > 0, otherwise -1. int64 [size].
Output TouchedIndices(OpScope scope, Output touched, int64_t width, int64_t begin, int64_t size);

// v -= lr g
struct GradientDescentAttrs {
  double weight_decay = 0;
};
Output ApplyGradientDescent(OpScope scope, const Variable& variable, Output learning_rate, const Gradient& gradient,
                            const GradientDescentAttrs& attrs = {});

// a = momentum a + g; v -= lr a (Polyak, 1964)
// or, with Nesterov's look-ahead, v -= lr (g + momentum a)
// (Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013).
struct MomentumAttrs {
  double momentum = 0.9;
  bool use_nesterov = false;
  double weight_decay = 0;
};
Output ApplyMomentum(OpScope scope, const Variable& variable, const Variable& accumulator, Output learning_rate,
                     const Gradient& gradient, const MomentumAttrs& attrs = {});

// ms = decay ms + (1 - decay) g^2; mom = momentum mom + lr g / sqrt(ms + epsilon); v -= mom
// (Tieleman and Hinton, 2012; epsilon inside the root, as in TensorFlow).
struct RMSPropAttrs {
  double decay = 0.9;
  double momentum = 0;
  double epsilon = 1e-10;
  double weight_decay = 0;
};
Output ApplyRMSProp(OpScope scope, const Variable& variable, const Variable& mean_square, const Variable& momentum,
                    Output learning_rate, const Gradient& gradient, const RMSPropAttrs& attrs = {});

// a += g^2; v -= lr g / sqrt(a) (Duchi, Hazan and Singer, 2011). A zero accumulator and a zero gradient give NaN.
struct AdagradAttrs {
  double weight_decay = 0;
};
Output ApplyAdagrad(OpScope scope, const Variable& variable, const Variable& accumulator, Output learning_rate,
                    const Gradient& gradient, const AdagradAttrs& attrs = {});

// m = beta1 m + (1 - beta1) g; s = beta2 s + (1 - beta2) g^2;
// v -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(s) + epsilon)
// (Kingma and Ba, 2015, in the form at the end of their section 2, as in TensorFlow). `step` is an int64 scalar, the
// number of this variable's earlier updates: t = step + 1.
struct AdamAttrs {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};
Output ApplyAdam(OpScope scope, const Variable& variable, const Variable& m, const Variable& s, Output step,
                 Output learning_rate, const Gradient& gradient, const AdamAttrs& attrs = {});

// v -= lr weight_decay v, followed by Adam's update with the undecayed gradient (Loshchilov and Hutter, "Decoupled
// weight decay regularization", 2019).
Output ApplyAdamW(OpScope scope, const Variable& variable, const Variable& m, const Variable& s, Output step,
                  Output learning_rate, const Gradient& gradient, const AdamAttrs& attrs = {});

// a = momentum a + lr trust (g + weight_decay v); v -= a, where g excludes the weight decay and
// trust = trust_coefficient |v| / (|g| + weight_decay |v| + epsilon), or 1 if either norm is 0 or `adapt` is false
// (You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017).
struct LarsAttrs {
  double momentum = 0.9;
  double trust_coefficient = 0.001;
  double epsilon = 0;
  double weight_decay = 0;
  bool adapt = true;
};
Output ApplyLars(OpScope scope, const Variable& variable, const Variable& accumulator, Output learning_rate,
                 Output gradient, const LarsAttrs& attrs = {});

// average += (1 - d) (value - average), where d = decay, or min(decay, (1 + step) / (10 + step)) with use_step, so that
// the average forgets its first values quickly. `step` is an int64 scalar; `value` has the average's shape and dtype.
struct MovingAverageAttrs {
  double decay = 0.999;
  bool use_step = true;
};
Output ApplyMovingAverage(OpScope scope, const Variable& average, Output step, Output value,
                          const MovingAverageAttrs& attrs = {});

// counter += 1. The counter is an int64 scalar.
Output Increment(OpScope scope, const Variable& counter);

// The Euclidean norm of all elements of one or more tensors of one dtype, a scalar of `dtype`: float32 or float64. Sums
// are kept in double, over chunks of a fixed size. Elements are scaled where their squares would overflow or vanish, so
// the norm of finite elements is infinite only if it exceeds the largest number of `dtype`; that of float32 tensors
// always fits in a float64. Its gradient is x / norm, and 0 where the norm is 0.
Output GlobalNorm(OpScope scope, absl::Span<const Output> tensors, DType dtype = DType::kFloat32);
// Scales x by clip_norm / norm if the norm exceeds clip_norm, which must be positive. `norm` is a float32 or float64
// scalar; if it is not finite, the result is all NaN.
Output ClipToNorm(OpScope scope, Output x, Output norm, double clip_norm);

// True if every element of one or more tensors of one dtype is finite: a bool scalar.
Output AllFinite(OpScope scope, absl::Span<const Output> tensors);

// Dynamic loss scaling: updates the scale after a step whose gradients were all `finite` (a bool scalar), or not.
//   finite:     good_steps += 1; when it reaches growth_interval, scale = min(factor scale, most) and good_steps = 0
//   otherwise:  scale = max(scale / factor, least), good_steps = 0, skipped_steps += 1
// The scale is a float32 scalar, the counts int64 scalars. A factor of 1 keeps the scale constant.
struct LossScaleAttrs {
  double factor = 2;
  double min_scale = 1, max_scale = 16777216;
  int64_t growth_interval = 2000;
};
Output ApplyLossScale(OpScope scope, const Variable& scale, const Variable& good_steps, const Variable& skipped_steps,
                      Output finite, const LossScaleAttrs& attrs = {});

}  // namespace belfry::ops
