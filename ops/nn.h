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
  double temperature = 1;  // above 1 flatter, below 1 sharper
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
// dtype. A label out of range is an error of the step that names the row. Differentiable once, in the logits.
Output SparseSoftmaxCrossEntropy(OpScope scope, Output logits, Output labels, const CrossEntropyOptions& options = {});
// The same for labels [..., classes] that are probabilities, of the logits' dtype.
Output SoftmaxCrossEntropy(OpScope scope, Output logits, Output labels, const CrossEntropyOptions& options = {});
// Loss of each element, for labels in [0, 1] of the logits' shape and dtype; the classes need not exclude each other.
Output SigmoidCrossEntropy(OpScope scope, Output logits, Output labels);

// x [..., C] + bias [C].
Output BiasAdd(OpScope scope, Output x, Output bias);

// x, or an error of the step that names the node and counts the NaNs and infinities; gradients are checked as well.
Output CheckNumerics(OpScope scope, Output x, absl::string_view message);

// y = x / (1 - rate) or, with probability `rate` in [0, 1), 0. Axis 0 of x counts examples. What is dropped depends on
// the graph's seed, the node's place in the tower (Scope::random_path), the step, the index of the example in the
// global batch and the element's place in the example: not on the number of towers or threads (Scope::RandomCounters).
// Without counters each run of the session drops other elements.
Output Dropout(OpScope scope, Output x, double rate);

}  // namespace belfry::ops
