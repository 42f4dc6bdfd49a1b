// Layers: a piece of a model together with its variables.
//
// A layer stands in the variable scope of its name, so the second "conv1" in one scope is an error unless the scope
// reuses variables. Its variables have the dtype of x, but float32 if that has 16 bits (mixed precision: the layer
// computes in 16 bits with a cast of its weights, which are updated in float32), and names that no tower is part of:
// "conv1/weights". Images are [N, H, W, C]; N may be unknown. Every layer returns an invalid Output after an error,
// which sticks to the graph (Scope::Fail) and names the layer.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"
#include "framework/graph/variable.h"
#include "ops/nn.h"

namespace belfry::models {

// Collection of what activation functions give, for summaries.
inline constexpr char kActivations[] = "activations";

enum class Activation { kNone, kRelu, kRelu6, kLeakyRelu, kElu, kSelu, kGelu, kSilu, kSoftplus, kSigmoid, kTanh };
// x itself for kNone; the functions of ops/nn.h with their default parameters, whose result is added to kActivations.
Output Activate(OpScope scope, Output x, Activation activation);

struct DenseOptions {
  Activation activation = Activation::kNone;
  bool use_bias = true;
  Initializer weights = GlorotUniformInitializer();
  Initializer biases = ZerosInitializer();
  double weight_decay = 0;  // of the weights: a term of TotalLoss (AddWeightDecay)
};
// activation(x weights + biases): x [..., C] gives [..., units]. Variables: weights [C, units], biases [units]. x has
// rank 2 or more and C is known.
Output Dense(OpScope scope, absl::string_view name, Output x, int64_t units, const DenseOptions& options = {});

// The height and width of a window or a step: `5`, or `{1, 7}`.
struct Size2D {
  int64_t height = 1, width = 1;
  constexpr Size2D(int64_t size) : height(size), width(size) {}  // NOLINT: converts on purpose
  constexpr Size2D(int64_t height, int64_t width) : height(height), width(width) {}
};

struct Conv2DOptions {
  Size2D stride = 1;
  ops::Padding padding = ops::Padding::Same();
  Size2D dilation = 1;
  int64_t groups = 1;  // of channels that do not see each other; divides C and filters
  Activation activation = Activation::kNone;
  bool use_bias = true;
  Initializer weights = GlorotUniformInitializer();
  Initializer biases = ZerosInitializer();
  double weight_decay = 0;  // of the weights: a term of TotalLoss (AddWeightDecay)
};
// activation(x * weights + biases), where * is ops::Conv2D: x [N, H, W, C] gives [N, H', W', filters]. Variables:
// weights [kernel height, kernel width, C / groups, filters], biases [filters]. C is known.
Output Conv2D(OpScope scope, absl::string_view name, Output x, int64_t filters, Size2D kernel,
              const Conv2DOptions& options = {});

struct PoolOptions {
  Size2D window = 2;
  Size2D stride = 2;
  ops::Padding padding = ops::Padding::Same();
};
// ops::MaxPool and ops::AvgPool of x [N, H, W, C] as a node called `name`.
Output MaxPool(OpScope scope, absl::string_view name, Output x, const PoolOptions& options = {});
Output AvgPool(OpScope scope, absl::string_view name, Output x, const PoolOptions& options = {});

// ops::Dropout while training, else x itself. What is dropped depends on the name and the scope, so give each its own.
Output Dropout(OpScope scope, absl::string_view name, Output x, double rate, bool training);

// x [N, ...] as [N, C], C the product of the other extents, which are known.
Output Flatten(OpScope scope, Output x);

}  // namespace belfry::models
