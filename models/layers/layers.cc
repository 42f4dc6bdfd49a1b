#include "models/layers/layers.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "models/layers/layers_impl.h"
#include "models/layers/losses.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {

Output Reject(const Scope& scope, absl::string_view layer, absl::string_view name, absl::string_view what,
              const Output& x) {
  std::string input;
  if (x.valid()) {
    input = absl::StrCat("; its input is ", x.name(), ", ", DTypeName(x.dtype()), " ", x.shape().ToString());
    if (x.node->location().known()) absl::StrAppend(&input, ", made at ", x.node->location().ToString());
  }
  scope.Fail(absl::InvalidArgumentError(absl::StrCat(layer, " '", scope.name(), name, "' ", what, input)));
  return Output();
}

Parameter GetParameter(const Scope& scope, absl::string_view name, const Shape& shape, const Initializer& initializer,
                       DType dtype) {
  const bool narrow = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  const Variable kept = GetVariable(scope, name, shape, initializer, {.dtype = narrow ? DType::kFloat32 : dtype});
  return {kept, narrow && kept.valid() ? ops::Cast(scope.NameScope(name), kept, dtype) : kept.value()};
}

namespace {

Output Apply(const Scope& scope, Output x, Activation activation) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return ops::Relu(scope, x);
    case Activation::kRelu6: return ops::Relu6(scope, x);
    case Activation::kLeakyRelu: return ops::LeakyRelu(scope, x);
    case Activation::kElu: return ops::Elu(scope, x);
    case Activation::kSelu: return ops::Selu(scope, x);
    case Activation::kGelu: return ops::Gelu(scope, x);
    case Activation::kSilu: return ops::Silu(scope, x);
    case Activation::kSoftplus: return ops::Softplus(scope, x);
    case Activation::kSigmoid: return ops::Sigmoid(scope, x);
    case Activation::kTanh: return ops::Tanh(scope, x);
  }
  return x;
}

Output BiasAndActivation(const Scope& scope, Output x, int64_t channels, bool use_bias, const Initializer& biases,
                         Activation activation) {
  if (use_bias && x.valid()) {
    x = ops::BiasAdd(scope, x, GetParameter(scope, "biases", {channels}, biases, x.dtype()).used);
  }
  return Activate(scope, x, activation);
}

ops::PoolOptions ToOps(const PoolOptions& options) {
  return {.height = options.window.height,
          .width = options.window.width,
          .stride_h = options.stride.height,
          .stride_w = options.stride.width,
          .padding = options.padding};
}

}  // namespace

Output Activate(OpScope scope, Output x, Activation activation) {
  const Output y = Apply(scope, x, activation);
  if (activation != Activation::kNone) scope.AddToCollection(kActivations, y);
  return y;
}

Output Dense(OpScope scope, absl::string_view name, Output x, int64_t units, const DenseOptions& options) {
  if (!x.valid()) return Reject(scope, "Dense", name, "has an invalid Output as input", x);
  if (!IsFloating(x.dtype())) return Reject(scope, "Dense", name, kNeedsFloats, x);
  if (x.shape().rank() < 2) return Reject(scope, "Dense", name, "needs an input of rank 2 or more", x);
  const int64_t channels = x.shape()[-1];
  if (channels == Shape::kUnknown) return Reject(scope, "Dense", name, "needs an input with a known last extent", x);
  if (units < 1) return Reject(scope, "Dense", name, absl::StrCat("has ", units, " units"), x);

  const Scope layer = scope.VariableScope(name);
  const Parameter weights = GetParameter(layer, "weights", {channels, units}, options.weights, x.dtype());
  AddWeightDecay(layer, weights.kept, options.weight_decay);
  return BiasAndActivation(layer, ops::MatMul(layer, x, weights.used), units, options.use_bias, options.biases,
                           options.activation);
}

namespace {

// True if a convolution by these filters can be made; otherwise it is rejected.
bool CanConvolve(const Scope& scope, absl::string_view layer, absl::string_view name, const Output& x, int64_t filters,
                 Size2D kernel, int64_t groups) {
  std::string what;
  if (!x.valid()) {
    what = "has an invalid Output as input";
  } else if (!IsFloating(x.dtype())) {
    what = kNeedsFloats;
  } else if (x.shape().rank() != 4) {
    what = "needs images [N, H, W, C]";
  } else if (x.shape()[-1] == Shape::kUnknown) {
    what = "needs an input with a known number of channels";
  } else if (filters < 1 || kernel.height < 1 || kernel.width < 1) {
    what = absl::StrCat("has ", filters, " filters of ", kernel.height, "x", kernel.width);
  } else if (groups < 1 || x.shape()[-1] % groups != 0 || filters % groups != 0) {
    what = absl::StrCat("cannot split ", x.shape()[-1], " channels and ", filters, " filters into ", groups, " groups");
  }
  if (!what.empty()) Reject(scope, layer, name, what, x);
  return what.empty();
}

ops::Conv2DOptions ToOps(const Conv2DOptions& options) {
  return {.stride_h = options.stride.height,
          .stride_w = options.stride.width,
          .padding = options.padding,
          .dilation_h = options.dilation.height,
          .dilation_w = options.dilation.width,
          .groups = options.groups};
}

}  // namespace

Output Conv2D(OpScope scope, absl::string_view name, Output x, int64_t filters, Size2D kernel,
              const Conv2DOptions& options) {
  if (!CanConvolve(scope, "Conv2D", name, x, filters, kernel, options.groups)) return Output();
  const Scope layer = scope.VariableScope(name);
  const Shape shape{kernel.height, kernel.width, x.shape()[-1] / options.groups, filters};
  const Parameter weights = GetParameter(layer, "weights", shape, options.weights, x.dtype());
  AddWeightDecay(layer, weights.kept, options.weight_decay);
  const Output y = ops::Conv2D(layer, x, weights.used, ToOps(options));
  return BiasAndActivation(layer, y, filters, options.use_bias, options.biases, options.activation);
}

Output Conv2DTranspose(OpScope scope, absl::string_view name, Output x, int64_t filters, Size2D kernel,
                       const Conv2DOptions& options) {
  if (!CanConvolve(scope, "Conv2DTranspose", name, x, filters, kernel, options.groups)) return Output();
  const Scope layer = scope.VariableScope(name);
  const Shape shape{kernel.height, kernel.width, filters / options.groups, x.shape()[-1]};
  const Parameter weights = GetParameter(layer, "weights", shape, options.weights, x.dtype());
  AddWeightDecay(layer, weights.kept, options.weight_decay);
  const Output y = ops::Conv2DTranspose(layer, x, weights.used, ToOps(options));
  return BiasAndActivation(layer, y, filters, options.use_bias, options.biases, options.activation);
}

Output MaxPool(OpScope scope, absl::string_view name, Output x, const PoolOptions& options) {
  return ops::MaxPool(scope.Named(name), x, ToOps(options));
}

Output AvgPool(OpScope scope, absl::string_view name, Output x, const PoolOptions& options) {
  return ops::AvgPool(scope.Named(name), x, ToOps(options));
}

Output Dropout(OpScope scope, absl::string_view name, Output x, double rate, bool training) {
  return training ? ops::Dropout(scope.NameScope(name), x, rate) : x;
}

Output Flatten(OpScope scope, Output x) {
  if (!x.valid()) return Reject(scope, "Flatten", "", "has an invalid Output as input", x);
  if (x.shape().rank() < 1) return Reject(scope, "Flatten", "", "needs an input of rank 1 or more", x);
  int64_t channels = 1;
  for (int axis = 1; axis < x.shape().rank(); ++axis) {
    if (x.shape()[axis] == Shape::kUnknown) {
      return Reject(scope, "Flatten", "", "needs an input whose extents are known, except the first", x);
    }
    channels *= x.shape()[axis];
  }
  // If the batch extent is unknown, it is passed on as such and the reshape infers it.
  return ops::Reshape(scope.Named("Flatten"), x, {x.shape()[0], channels});
}

}  // namespace belfry::models
