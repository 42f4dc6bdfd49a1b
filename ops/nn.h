// Neural-network ops: activations, losses, convolution, pooling, normalisation and dropout.
//
// Tensors are float32, float64, float16 or bfloat16; the 16-bit dtypes are computed in float32.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"
#include "ops/extents.h"

namespace belfry::ops {

// Activations: y has the shape of x, and NaN stays NaN.

Output Relu(OpScope scope, Output x);   // max(x, 0)
Output Relu6(OpScope scope, Output x);  // min(max(x, 0), 6)
// x above 0, alpha x below 0. REQUIRES: alpha >= 0.
Output LeakyRelu(OpScope scope, Output x, double alpha = 0.2);
// x above 0, alpha (exp(x) - 1) below 0 (Clevert et al., 2015). REQUIRES: alpha >= 0.
Output Elu(OpScope scope, Output x, double alpha = 1);
// The scaled ELU, which keeps mean 0 and variance 1 (Klambauer et al., 2017).
Output Selu(OpScope scope, Output x);
// x Phi(x), where Phi is the standard normal distribution function (Hendrycks and Gimpel, 2016), in float32 with a
// relative error of at most (5 + x^2) 2^-23, also where it is tiny; with `approximate`,
// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
Output Gelu(OpScope scope, Output x, bool approximate = false);
Output Silu(OpScope scope, Output x);      // x sigmoid(x), also called swish
Output Softplus(OpScope scope, Output x);  // log(1 + exp(x)), without overflow

struct SoftmaxOptions {
  int64_t axis = -1;
  double temperature = 1;  // above 1 flattens, below 1 sharpens; 1 / temperature must be finite in float
};
// y = softmax(logits / temperature) along `axis`. A NaN or +inf makes its whole slice NaN.
Output Softmax(OpScope scope, Output logits, const SoftmaxOptions& options = {});
// The logarithm of Softmax, computed without underflow.
Output LogSoftmax(OpScope scope, Output logits, const SoftmaxOptions& options = {});

struct CrossEntropyOptions {
  // Targets become (1 - label_smoothing) label + label_smoothing / classes (Szegedy et al., 2016). In [0, 1].
  double label_smoothing = 0;
};
struct SparseCrossEntropyOptions {
  double label_smoothing = 0;  // as above
  // Examples with this label, which need not be a class, have loss 0 and a gradient of exactly 0, even if their logits
  // or the gradient of their loss are infinite or NaN. PyTorch's ignore_index, whose gradient is NaN where an ignored
  // example's logits are. models::MeanCrossEntropy is the mean over the others.
  std::optional<int64_t> ignore_label = {};
};
// The loss of each example: logits [..., classes] and labels [...] (int32 or int64, in [0, classes) or to be ignored)
// give loss [...] in the logits' dtype, or in float32 if they have 16 bits: they are read, and their gradient is
// written, in 16 bits, and all between is computed in float32. Any other label fails the step with an error that names
// the row; on a GPU it makes the row's loss and gradient NaN. Differentiable with respect to the logits.
Output SparseSoftmaxCrossEntropy(OpScope scope, Output logits, Output labels,
                                 const SparseCrossEntropyOptions& options = {});
// The same with labels [..., classes] that are probabilities, in the logits' dtype.
Output SoftmaxCrossEntropy(OpScope scope, Output logits, Output labels, const CrossEntropyOptions& options = {});
// The loss of each element, for labels in [0, 1] with the logits' shape and dtype. Classes need not be mutually
// exclusive.
Output SigmoidCrossEntropy(OpScope scope, Output logits, Output labels);

// The mean of (predictions - targets)^2, a scalar; NaN without elements. Both have one shape and dtype.
Output MeanSquaredLoss(OpScope scope, Output predictions, Output targets);
// The loss of each element (Huber, 1964), for predictions and targets of one shape and dtype: with d = predictions -
// targets, d^2 / 2 where |d| <= delta, otherwise delta (|d| - delta / 2). REQUIRES: delta > 0.
Output HuberLoss(OpScope scope, Output predictions, Output targets, double delta = 1);
// The divergence of each row (Kullback and Leibler, 1951): probabilities p [..., C] and the logarithms of probabilities
// q, of the same shape and dtype, give the sum of p (log p - log q) [...]. Classes with p = 0 contribute nothing.
Output KlDivergence(OpScope scope, Output p, Output log_q);

// x [..., C] + bias [C].
Output BiasAdd(OpScope scope, Output x, Output bias);

// Padding around images: convolutions read it as 0, pooling ignores it.
struct Padding {
  enum Kind {
    kSame,      // ceil(in / stride) outputs; the odd element is added at the bottom and right, as in TensorFlow
    kValid,     // no padding
    kExplicit,  // the four numbers below
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
  Padding padding = {};
  int64_t dilation_h = 1, dilation_w = 1;  // 1: neighbouring taps
  int64_t groups = 1;                      // channel groups, convolved separately
};
// Cross-correlation of x [N, H, W, C] with filter [R, S, C / groups, K] into [N, H', W', K]. Group g produces output
// channels [g K / groups, (g + 1) K / groups). By Winograd's algorithm, which CPUs take where it is faster
// (docs/determinism.md), a number that is infinite, NaN or far larger than others also changes outputs, and gradients
// of the filter, that do not read it.
Output Conv2D(OpScope scope, Output x, Output filter, const Conv2DOptions& options = {});

// The extents of images; absent: those that the op documents.
struct ImageExtents {
  std::optional<Extent> height, width;
};
// The transposed convolution ("deconvolution"): the gradient of Conv2D with respect to its images, which takes x
// [N, H, W, K] and filter [R, S, C / groups, K] to [N, H', W', C] if Conv2D with these options takes [N, H', W', C] to
// [N, H, W, K]. By default H' is H stride_h with SAME padding, otherwise (H - 1) stride_h + (R - 1) dilation_h + 1 less
// the padding; `extents` chooses another one that is possible (PyTorch's output_padding).
Output Conv2DTranspose(OpScope scope, Output x, Output filter, const Conv2DOptions& options = {},
                       const ImageExtents& extents = {});

struct Conv1DOptions {
  int64_t stride = 1;
  Padding padding = {};  // Explicit(0, 0, before, after); (0, 0, (R - 1) dilation, 0) is causal
  int64_t dilation = 1;
  int64_t groups = 1;
};
// Cross-correlation of sequences x [N, L, C] with filter [R, C / groups, K] into [N, L', K].
Output Conv1D(OpScope scope, Output x, Output filter, const Conv1DOptions& options = {});

// Convolves each channel by itself: x [N, H, W, C] and filter [R, S, C, M] give [N, H', W', C M], of which channels
// [c M, (c + 1) M) are those of channel c. C must be known. It is Conv2D with C groups, so options.groups must be 1.
Output DepthwiseConv2D(OpScope scope, Output x, Output filter, const Conv2DOptions& options = {});

struct PoolOptions {
  int64_t height = 2, width = 2;  // size of the window
  int64_t stride_h = 2, stride_w = 2;
  Padding padding = {};  // must be smaller than the window
};
// The maximum of each window of x [N, H, W, C], per channel. Any number beats NaN, so only a window of NaNs gives NaN.
// The gradient goes to the first of equal elements.
Output MaxPool(OpScope scope, Output x, const PoolOptions& options = {});
// The mean of each window, over its elements inside the image.
Output AvgPool(OpScope scope, Output x, const PoolOptions& options = {});
// Pools over whole images into [N, C], or [N, 1, 1, C] with keep_dims. GlobalMaxPool needs a known height and width.
Output GlobalAvgPool(OpScope scope, Output x, bool keep_dims = false);
Output GlobalMaxPool(OpScope scope, Output x, bool keep_dims = false);

// Images x [N, H, W, C] in another size, [N, height, width, C]; twice as large:
//   ResizeBilinear(scope, x, Extent::Of(x, 1) * 2, Extent::Of(x, 2) * 2)
// Pixels are areas, positioned by their centres, as in TensorFlow 2 and in PyTorch with align_corners=False.
// Nearest takes the pixel in which the centre lies (PyTorch's "nearest-exact"); bilinear interpolates between the four
// nearest centres, without a filter when it makes images smaller. An empty image cannot be resized to another.
Output ResizeNearest(OpScope scope, Output x, const Extent& height, const Extent& width);
Output ResizeBilinear(OpScope scope, Output x, const Extent& height, const Extent& width);

struct LrnOptions {
  int64_t depth_radius = 5;
  double bias = 1, alpha = 1, beta = 0.5;
};
// Local response normalisation across the last axis (Krizhevsky et al., 2012):
//   y[.., i] = x[.., i] / (bias + alpha sum x[.., j]^2)^beta
// where the sum is over the channels j within depth_radius of i.
Output LocalResponseNormalization(OpScope scope, Output x, const LrnOptions& options = {});

struct ChannelMomentsOutputs {
  Output mean, variance;  // [C], float64 if x is float64, otherwise float32
};
// The mean and biased variance of each channel of x [..., C] over all other axes. Both are 0 if there are no elements.
ChannelMomentsOutputs ChannelMoments(OpScope scope, Output x);

struct BatchNormOutputs {
  Output y;
  Output mean, variance;  // [C], of this batch, for moving averages: the variance is biased (divided by
                          // the number of elements), and no gradient flows through either
};
// Batch normalisation (Ioffe and Szegedy, 2015) of x [N, H, W, C] or [N, C] over all axes but the last:
//   y = scale (x - mean) / sqrt(variance + epsilon) + offset
// scale and offset [C] are float64 if x is, otherwise float32. A batch without elements has mean and variance 0. Here
// and below, epsilon must be finite and not negative. The variance is a result in its own dtype: for deviations beyond
// 1.8e19 a float32 one is infinite, and y is `offset`.
BatchNormOutputs BatchNorm(OpScope scope, Output x, Output scale, Output offset, double epsilon = 1e-3);
// Batch normalisation with the given mean and variance [C]: for evaluation, and for statistics gathered over more than
// this x.
Output BatchNormInference(OpScope scope, Output x, Output scale, Output offset, Output mean, Output variance,
                          double epsilon = 1e-3);
// Layer normalisation (Ba et al., 2016) over the trailing axes of x that match the shape of scale and offset, which
// have x's dtype. Here, in RmsNorm and in GroupNorm squares neither overflow nor vanish, whatever finite numbers x has.
Output LayerNorm(OpScope scope, Output x, Output scale, Output offset, double epsilon = 1e-5);
// Root-mean-square normalisation (Zhang and Sennrich, 2019) over the trailing axes of x that match the shape of scale,
// which has x's dtype:
//   y = scale x / sqrt(mean(x^2) + epsilon)
Output RmsNorm(OpScope scope, Output x, Output scale, double epsilon = 1e-6);
// Group normalisation (Wu and He, 2018) of x [N, .., C], for each example and each group of C / groups neighbouring
// channels over the group's elements:
//   y = scale (x - mean) / sqrt(variance + epsilon) + offset
// scale and offset [C] have x's dtype. REQUIRES: groups divides C.
Output GroupNorm(OpScope scope, Output x, Output scale, Output offset, int64_t groups, double epsilon = 1e-5);

// Returns x; NaN or infinity in x, or in its gradient, fails the step with an error that names the node and counts
// them. On a GPU the error is reported only after the step, so dependent ops have run and variables have been updated.
Output CheckNumerics(OpScope scope, Output x, absl::string_view message);

// Drops each element with probability `rate` in [0, 1): y = 0 if dropped, otherwise x / (1 - rate). Axis 0 of x counts
// examples. The choice depends on the graph's seed, the node's path within the tower (Scope::random_path), the step,
// the example's index in the global batch and the element's index in the example, and not on the number of towers or
// threads (Scope::RandomCounters). Without counters, every run of the session drops different elements.
// The gradient draws the choice again, which costs less than to keep it.
Output Dropout(OpScope scope, Output x, double rate);

}  // namespace belfry::ops
