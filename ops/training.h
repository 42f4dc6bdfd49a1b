// Updates of variables by their gradients, each one pass over memory, and what goes with them.
//
// In all updates by gradients the variable, its slots and the gradient have one shape and one floating-point dtype
// (float16 and bfloat16 are computed in float32 and rounded to be stored); the learning rate is a float32 scalar, so
// that a schedule is part of the graph; every other hyper-parameter is an attribute. A `weight_decay` adds weight_decay
// * variable to the gradient, which is L2 regularisation, except in ApplyAdamW. They return the variable after the
// update; none is differentiable. NaN in a gradient reaches the variable.
//
// In the formulas: v the variable, g its gradient (weight decay included), lr the learning rate.
#pragma once

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::ops {

// v -= lr g
struct GradientDescentAttrs {
  double weight_decay = 0;
};
Output ApplyGradientDescent(OpScope scope, const Variable& variable, Output learning_rate, Output gradient,
                            const GradientDescentAttrs& attrs = {});

// a = momentum a + g;  v -= lr a  (Polyak, 1964), or with Nesterov's look-ahead v -= lr (g + momentum a), after
// Sutskever et al., "On the importance of initialization and momentum in deep learning" (2013).
struct MomentumAttrs {
  double momentum = 0.9;
  bool use_nesterov = false;
  double weight_decay = 0;
};
Output ApplyMomentum(OpScope scope, const Variable& variable, const Variable& accumulator, Output learning_rate,
                     Output gradient, const MomentumAttrs& attrs = {});

// ms = decay ms + (1 - decay) g^2;  mom = momentum mom + lr g / sqrt(ms + epsilon);  v -= mom
// (Tieleman and Hinton, 2012, as TensorFlow has it: epsilon under the root).
struct RMSPropAttrs {
  double decay = 0.9;
  double momentum = 0;
  double epsilon = 1e-10;
  double weight_decay = 0;
};
Output ApplyRMSProp(OpScope scope, const Variable& variable, const Variable& mean_square, const Variable& momentum,
                    Output learning_rate, Output gradient, const RMSPropAttrs& attrs = {});

// a += g^2;  v -= lr g / sqrt(a)  (Duchi, Hazan and Singer, 2011). An accumulator of zero gives NaN.
struct AdagradAttrs {
  double weight_decay = 0;
};
Output ApplyAdagrad(OpScope scope, const Variable& variable, const Variable& accumulator, Output learning_rate,
                    Output gradient, const AdagradAttrs& attrs = {});

// m = beta1 m + (1 - beta1) g;  s = beta2 s + (1 - beta2) g^2;
// v -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(s) + epsilon)
// (Kingma and Ba, 2015, the form at the end of their section 2, which TensorFlow has). `step` is an int64 scalar, the
// number of updates before this one: t = step + 1.
struct AdamAttrs {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};
Output ApplyAdam(OpScope scope, const Variable& variable, const Variable& m, const Variable& s, Output step,
                 Output learning_rate, Output gradient, const AdamAttrs& attrs = {});

// v -= lr weight_decay v, and then Adam's update by the gradient alone (Loshchilov and Hutter, "Decoupled weight decay
// regularization", 2019).
Output ApplyAdamW(OpScope scope, const Variable& variable, const Variable& m, const Variable& s, Output step,
                  Output learning_rate, Output gradient, const AdamAttrs& attrs = {});

// trust = trust_coefficient |v| / (|g| + weight_decay |v| + epsilon), where g is without the weight decay, or 1 where
// either norm is 0 or `adapt` is false;  a = momentum a + lr trust (g + weight_decay v);  v -= a
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

// average += (1 - d) (value - average), where d = decay, or with use_step min(decay, (1 + step) / (10 + step)), so that
// the first steps are not remembered for long; `step` is an int64 scalar. `value` has the average's shape and dtype.
struct MovingAverageAttrs {
  double decay = 0.999;
  bool use_step = true;
};
Output ApplyMovingAverage(OpScope scope, const Variable& average, Output step, Output value,
                          const MovingAverageAttrs& attrs = {});

// The Euclidean norm of all elements of all tensors (one at least, of one dtype): a float32 scalar. Added up in double
// from chunks of a fixed size.
Output GlobalNorm(OpScope scope, absl::Span<const Output> tensors);
// x scaled by clip_norm / norm if norm > clip_norm > 0; all NaN if the norm, a float32 scalar, is not finite.
Output ClipToNorm(OpScope scope, Output x, Output norm, double clip_norm);

// Whether no element of any of the tensors (one at least, of one dtype) is NaN or infinite: a bool scalar.
Output AllFinite(OpScope scope, absl::Span<const Output> tensors);

// A loss scale after a step whose gradients were all `finite`, a bool scalar, or not:
//   finite:     good_steps += 1; once that is growth_interval, scale = min(factor scale, max_scale) and good_steps = 0
//   otherwise:  scale = max(scale / factor, min_scale), good_steps = 0, skipped_steps += 1
// The scale is float32, the counts are int64, all scalars. A factor of 1 leaves the scale as it is.
struct LossScaleAttrs {
  double factor = 2;
  double min_scale = 1, max_scale = 16777216;
  int64_t growth_interval = 2000;
};
Output ApplyLossScale(OpScope scope, const Variable& scale, const Variable& good_steps, const Variable& skipped_steps,
                      Output finite, const LossScaleAttrs& attrs = {});

}  // namespace belfry::ops
