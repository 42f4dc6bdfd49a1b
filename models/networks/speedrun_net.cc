#include "models/networks/speedrun_net.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {
namespace {

Initializer UniformByFanIn(int64_t fan_in) {
  const double limit = 1 / std::sqrt(static_cast<double>(fan_in));
  return UniformInitializer(-limit, limit);
}

// Filters [3, 3, C, F] of which the first min(C, F) pass on a channel each.
Initializer PartlyIdentity() {
  return [](const Scope& scope, absl::string_view name, DType dtype, const Shape& shape) {
    const int64_t channels = shape[2], filters = shape[3], passing = std::min(channels, filters);
    Tensor identity(DType::kFloat32, {1, 1, channels, passing});
    std::fill_n(identity.data<float>(), identity.elements(), 0.0f);
    for (int64_t i = 0; i < passing; ++i) identity.data<float>()[i * passing + i] = 1;
    const Output centre = ops::Cast(scope, ops::Const(scope, identity), dtype);
    const Output first = ops::Pad(scope, centre, {{1, 1}, {1, 1}, {0, 0}, {0, 0}});
    if (passing == filters) return first;
    const Initializer random = UniformByFanIn(9 * channels);
    const Output rest = random(scope, name, dtype, {3, 3, channels, filters - passing});
    return ops::Concat(scope, {first, rest}, 3);
  };
}

Output NormAndGelu(const Scope& scope, absl::string_view name, Output x, const SpeedrunNetOptions& options) {
  const BatchNormOptions norm = {.training = options.training, .momentum = 0.6, .epsilon = 1e-12, .scale = false};
  return Activate(scope, BatchNorm(scope, name, x, norm), Activation::kGelu);
}

Output Convolution(const Scope& scope, absl::string_view name, Output x, int64_t filters) {
  return Conv2D(scope, name, x, filters, 3, {.use_bias = false, .weights = PartlyIdentity()});
}

Output Group(const Scope& scope, Output x, int64_t filters, const SpeedrunNetOptions& options) {
  x = Convolution(scope, "conv1", x, filters);
  x = MaxPool(scope, "pool", x, {.window = 2, .stride = 2, .padding = ops::Padding::Valid()});
  x = NormAndGelu(scope, "bn1", x, options);
  return NormAndGelu(scope, "bn2", Convolution(scope, "conv2", x, filters), options);
}

}  // namespace

Output SpeedrunNet(OpScope scope, Output images, const SpeedrunNetOptions& options) {
  const int64_t channels = images.valid() && images.shape().rank() == 4 ? images.shape()[-1] : 0;
  Conv2DOptions whiten = {.padding = ops::Padding::Valid(), .activation = Activation::kGelu};
  whiten.weights = UniformByFanIn(4 * std::max<int64_t>(channels, 1));
  if (options.whitening.elements() > 0) {
    whiten.weights = [filters = options.whitening](const Scope& at, absl::string_view, DType dtype, const Shape&) {
      return ops::Cast(at, ops::Const(at, filters), dtype);
    };
  }
  Output x = Conv2D(scope, "whiten", images, std::max<int64_t>(8 * channels, 1), 2, whiten);
  for (size_t i = 0; i < options.widths.size(); ++i) {
    x = Group(scope.VariableScope(absl::StrCat("group", i + 1)), x, options.widths[i], options);
  }
  x = Flatten(scope, MaxPool(scope, "pool", x, {.window = 3, .stride = 3, .padding = ops::Padding::Valid()}));
  const int64_t fan_in = x.valid() ? std::max<int64_t>(x.shape()[-1], 1) : 1;
  const double unit = std::sqrt(3.0);  // the limit of the uniform distribution of deviation 1
  const Output logits = Dense(
      scope, "logits", x, options.classes,
      {.use_bias = false, .weights = options.unit_logits ? UniformInitializer(-unit, unit) : UniformByFanIn(fan_in)});
  if (!logits.valid()) return logits;
  return ops::Scale(scope, logits, 1 / (options.unit_logits ? static_cast<double>(fan_in) : 9.0));
}

}  // namespace belfry::models
