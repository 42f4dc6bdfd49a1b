// Softmax regression and multi-layer perceptrons.
#pragma once

#include <cstdint>
#include <vector>

#include "models/layers/layers.h"

namespace belfry::models {

struct SoftmaxRegressionOptions {
  int64_t classes = 10;
  double weight_decay = 0;
};
// The logits [N, classes] for x [N, ...], which is flattened. Variables, starting at 0: softmax_linear/weights and
// softmax_linear/biases.
Output SoftmaxRegression(OpScope scope, Output x, const SoftmaxRegressionOptions& options = {});

struct MlpOptions {
  std::vector<int64_t> hidden = {128};  // width of each hidden layer; empty for a linear model
  int64_t classes = 10;
  Activation activation = Activation::kRelu;
  double dropout = 0;  // rate of dropout after each hidden layer, in training
  bool training = true;
  double weight_decay = 0;
};
// The logits [N, classes] for x [N, ...], which is flattened. Variables: hidden1/weights, hidden1/biases, hidden2/...
// and softmax_linear/...; weights start as in He et al. (2015).
Output Mlp(OpScope scope, Output x, const MlpOptions& options = {});

}  // namespace belfry::models
