#include "models/networks/cifar_net.h"

#include "models/layers/layers.h"

namespace belfry::models {
namespace {

Output Convolution(const Scope& scope, absl::string_view name, Output x, double bias) {
  return Conv2D(scope, name, x, 64, 5,
                {.activation = Activation::kRelu,
                 .weights = TruncatedNormalInitializer(5e-2),
                 .biases = ConstantInitializer(bias)});
}

Output Pool(const Scope& scope, absl::string_view name, Output x) {
  return MaxPool(scope, name, x, {.window = 3, .stride = 2});
}

Output Normalize(const Scope& scope, absl::string_view name, Output x) {
  return ops::LocalResponseNormalization(scope.Named(name), x,
                                         {.depth_radius = 4, .bias = 1, .alpha = 0.001 / 9, .beta = 0.75});
}

Output Local(const Scope& scope, absl::string_view name, Output x, int64_t units, double weight_decay) {
  return Dense(scope, name, x, units,
               {.activation = Activation::kRelu,
                .weights = TruncatedNormalInitializer(0.04),
                .biases = ConstantInitializer(0.1),
                .weight_decay = weight_decay});
}

}  // namespace

Output CifarNet(OpScope scope, Output images, const CifarNetOptions& options) {
  Output x = Convolution(scope, "conv1", images, 0);
  x = Normalize(scope, "norm1", Pool(scope, "pool1", x));
  x = Convolution(scope, "conv2", x, 0.1);
  x = Pool(scope, "pool2", Normalize(scope, "norm2", x));
  x = Local(scope, "local3", Flatten(scope, x), 384, options.weight_decay);
  x = Local(scope, "local4", x, 192, options.weight_decay);
  return Dense(scope, "softmax_linear", x, options.classes, {.weights = TruncatedNormalInitializer(1 / 192.0)});
}

}  // namespace belfry::models
