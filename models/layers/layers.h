// Layers: parts of a model together with their variables.
//
// A layer is built in the variable scope of its name, so a second "conv1" in one scope is an error unless the scope
// reuses variables. Variables have the dtype of x, or float32 if x has 16 bits (mixed precision: the layer computes in
// 16 bits with a cast of its weights, which are updated in float32). Their names, such as "conv1/weights", never
// contain a tower. Images are [N, H, W, C]; N may be unknown. After an error, which sticks to the graph (Scope::Fail)
// and names the layer, a layer returns an invalid Output.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"
#include "framework/graph/variable.h"
#include "ops/nn.h"

namespace belfry::models {

// The collection of activation functions' results, for summaries.
inline constexpr char kActivations[] = "activations";

enum class Activation { kNone, kRelu, kRelu6, kLeakyRelu, kElu, kSelu, kGelu, kSilu, kSoftplus, kSigmoid, kTanh };
// Applies a function of ops/nn.h with its default parameters and adds the result to kActivations; kNone returns x.
Output Activate(OpScope scope, Output x, Activation activation);

struct DenseOptions {
  Activation activation = Activation::kNone;
  bool use_bias = true;
  Initializer weights = GlorotUniformInitializer();
  Initializer biases = ZerosInitializer();
  double weight_decay = 0;  // adds a weight-decay term for the weights to TotalLoss (see AddWeightDecay)
};
// activation(x weights + biases): x [..., C], of rank 2 or more with known C, gives [..., units]. Variables: weights
// [C, units], biases [units].
Output Dense(OpScope scope, absl::string_view name, Output x, int64_t units, const DenseOptions& options = {});

// Height and width of a window or a stride: `5` or `{1, 7}`.
struct Size2D {
  int64_t height = 1, width = 1;
  constexpr Size2D(int64_t size) : height(size), width(size) {}  // NOLINT: converts on purpose
  constexpr Size2D(int64_t rows, int64_t columns) : height(rows), width(columns) {}
};

struct Conv2DOptions {
  Size2D stride = 1;
  ops::Padding padding = ops::Padding::Same();
  Size2D dilation = 1;
  int64_t groups = 1;  // independent groups of channels; must divide C and filters
  Activation activation = Activation::kNone;
  bool use_bias = true;
  Initializer weights = GlorotUniformInitializer();
  Initializer biases = ZerosInitializer();
  double weight_decay = 0;  // adds a weight-decay term for the weights to TotalLoss (see AddWeightDecay)
};
// activation(x * weights + biases), where * is ops::Conv2D: x [N, H, W, C] with known C gives [N, H', W', filters].
// Variables: weights [kernel height, kernel width, C / groups, filters], biases [filters].
Output Conv2D(OpScope scope, absl::string_view name, Output x, int64_t filters, Size2D kernel,
              const Conv2DOptions& options = {});

// activation(ops::Conv2DTranspose(x, weights) + biases), which makes images larger: x [N, H, W, C] with known C gives
// [N, H stride, W stride, filters], or what ops::Conv2DTranspose says for another padding than SAME. Variables: weights
// [kernel height, kernel width, filters / groups, C], biases [filters].
Output Conv2DTranspose(OpScope scope, absl::string_view name, Output x, int64_t filters, Size2D kernel,
                       const Conv2DOptions& options = {});

struct PoolOptions {
  Size2D window = 2;
  Size2D stride = 2;
  ops::Padding padding = ops::Padding::Same();
};
// ops::MaxPool and ops::AvgPool of x [N, H, W, C], as a node named `name`.
Output MaxPool(OpScope scope, absl::string_view name, Output x, const PoolOptions& options = {});
Output AvgPool(OpScope scope, absl::string_view name, Output x, const PoolOptions& options = {});

// ops::Dropout in training, otherwise x itself. The elements dropped depend on the name and the scope, so give each
// layer its own.
Output Dropout(OpScope scope, absl::string_view name, Output x, double rate, bool training);

// x [N, ...] reshaped to [N, C], where C is the product of the other extents, which must be known.
Output Flatten(OpScope scope, Output x);

}  // namespace belfry::models
