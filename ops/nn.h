// Neural-network ops. T is float32, float64, float16 or bfloat16; the 16-bit floats are computed in float32.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"

namespace belfry::ops {

// Activations: y [...] like x, NaN stays NaN.

Output Relu(OpScope scope, Output x);   // max(x, 0)
Output Relu6(OpScope scope, Output x);  // min(max(x, 0), 6)
// x above 0, alpha x below. REQUIRES: alpha >= 0.
Output LeakyRelu(OpScope scope, Output x, double alpha = 0.2);
// x above 0, alpha (exp(x) - 1) below (Clevert et al., 2015). REQUIRES: alpha >= 0.
Output Elu(OpScope scope, Output x, double alpha = 1);
// The scaled ELU that keeps mean 0 and variance 1 (Klambauer et al., 2017).
Output Selu(OpScope scope, Output x);
// x Phi(x), Phi the normal distribution (Hendrycks and Gimpel, 2016); `approximate` by
// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
Output Gelu(OpScope scope, Output x, bool approximate = false);
Output Silu(OpScope scope, Output x);      // x sigmoid(x), also called swish
Output Softplus(OpScope scope, Output x);  // log(1 + exp(x)), without overflow

struct SoftmaxOptions {
  int64_t axis = -1;
  double temperature = 1;  // above 1 flatter, below 1 sharper; its reciprocal is finite in float
};
// y = softmax(logits / temperature) along `axis`. A NaN or +inf makes its slice NaN.
Output Softmax(OpScope scope, Output logits, const SoftmaxOptions& options = {});
// Its logarithm, without underflow.
Output LogSoftmax(OpScope scope, Output logits, const SoftmaxOptions& options = {});

struct CrossEntropyOptions {
  // Targets are (1 - label_smoothing) label + label_smoothing / classes (Szegedy et al., 2016), in [0, 1].
  double label_smoothing = 0;
};
// Loss of each example: logits [..., classes], labels [...] int32 or int64 in [0, classes), loss [...] of the logits'
// dtype. A label out of range is an error of the step that names the row; on a GPU the row's loss and gradient are NaN.
// Differentiable once, in the logits.
Output SparseSoftmaxCrossEntropy(OpScope scope, Output logits, Output labels, const CrossEntropyOptions& options = {});
// The same for labels [..., classes] that are probabilities, of the logits' dtype.
Output SoftmaxCrossEntropy(OpScope scope, Output logits, Output labels, const CrossEntropyOptions& options = {});
// Loss of each element, for labels in [0, 1] of the logits' shape and dtype; the classes need not exclude each other.
Output SigmoidCrossEntropy(OpScope scope, Output logits, Output labels);

// x [..., C] + bias [C].
Output BiasAdd(OpScope scope, Output x, Output bias);

// How far images reach beyond their border, where they are taken as 0 (by convolutions) or left out (by pooling).
struct Padding {
  enum Kind {
    kSame,      // ceil(in / stride) outputs; the odd element is added at the bottom and right, as in TensorFlow
    kValid,     // none
    kExplicit,  // the four numbers
  };
  Kind kind = kSame;
  int64_t top = 0, bottom = 0, left = 0, right = 0;

  static Padding Same() { return {}; }
  static Padding Valid() { return {.kind = kValid}; }
  static Padding Explicit(int64_t top, int64_t bottom, int64_t left, int64_t right) {
    return {kExplicit, top, bottom, left, right};
  }
};

struct Conv2DOptions {
  int64_t stride_h = 1, stride_w = 1;
  Padding padding;
  int64_t dilation_h = 1, dilation_w = 1;  // 1: the taps of the window are neighbours
  int64_t groups = 1;                      // groups of channels that do not see each other
};
// Cross-correlation of x [N, H, W, C] with filter [R, S, C / groups, K]: [N, H', W', K]. Output channels of group g are
// [g K / groups, (g + 1) K / groups).
Output Conv2D(OpScope scope, Output x, Output filter, const Conv2DOptions& options = {});

struct PoolOptions {
  int64_t height = 2, width = 2;  // of the window
  int64_t stride_h = 2, stride_w = 2;
  Padding padding;  // smaller than the window
};
// The largest of each window of x [N, H, W, C], per channel. A NaN loses against every number, and a window
// of NaNs alone gives NaN. The gradient goes to the first of equal elements.
Output MaxPool(OpScope scope, Output x, const PoolOptions& options = {});
// The mean of each window, of its elements inside the image.
Output AvgPool(OpScope scope, Output x, const PoolOptions& options = {});
// Over whole images: [N, C], or [N, 1, 1, C]. For the maximum height and width must be known.
Output GlobalAvgPool(OpScope scope, Output x, bool keep_dims = false);
Output GlobalMaxPool(OpScope scope, Output x, bool keep_dims = false);

struct LrnOptions {
  int64_t depth_radius = 5;
  double bias = 1, alpha = 1, beta = 0.5;
};
// Local response normalisation across the last axis (Krizhevsky et al., 2012): y[.., i] = x[.., i] / (bias + alpha sum
// x[.., j]^2)^beta over the channels j within depth_radius of i.
Output LocalResponseNormalization(OpScope scope, Output x, const LrnOptions& options = {});

struct ChannelMomentsOutputs {
  Output mean, variance;  // [C], float64 if x is, else float32
};
// The mean and variance of each channel of x [..., C] over all other axes; the variance is divided by the number of
// elements, and both are 0 without elements.
ChannelMomentsOutputs ChannelMoments(OpScope scope, Output x);

struct BatchNormOutputs {
  Output y;
  Output mean, variance;  // [C], of this batch: what moving averages are made of. The variance is divided by the number
                          // of elements. No gradient flows through them
};
// Batch normalisation (Ioffe and Szegedy, 2015) of x [N, H, W, C] or [N, C] over all axes but the last:
// y = scale (x - mean) / sqrt(variance + epsilon) + offset. scale and offset [C] are float64 if x is, else float32. A
// batch without elements has mean and variance 0. epsilon is finite and not negative, here and below.
BatchNormOutputs BatchNorm(OpScope scope, Output x, Output scale, Output offset, double epsilon = 1e-3);
// With given mean and variance [C]: for evaluation, and for statistics of more than this x.
Output BatchNormInference(OpScope scope, Output x, Output scale, Output offset, Output mean, Output variance,
                          double epsilon = 1e-3);
// Layer normalisation (Ba et al., 2016) over the last axes of x, those of scale and offset, which have x's dtype.
Output LayerNorm(OpScope scope, Output x, Output scale, Output offset, double epsilon = 1e-5);

// x, or an error of the step that names the node and counts the NaNs and infinities; gradients are checked as well. On
// a GPU the error is reported when the step is over, so what depends on x has run, and variables are updated.
Output CheckNumerics(OpScope scope, Output x, absl::string_view message);

// y = x / (1 - rate) or, with probability `rate` in [0, 1), 0. Axis 0 of x counts examples. What is dropped depends on
// the graph's seed, the node's place in the tower (Scope::random_path), the step, the index of the example in the
// global batch and the element's place in the example: not on the number of towers or threads (Scope::RandomCounters).
// Without counters each run of the session drops other elements.
Output Dropout(OpScope scope, Output x, double rate);

}  // namespace belfry::ops
