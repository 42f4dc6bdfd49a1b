#include "models/networks/resnet.h"

#include "absl/strings/str_cat.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {
namespace {

// A convolution and its batch norm, under one name.
Output ConvolutionAndNorm(const Scope& scope, absl::string_view name, Output x, int64_t filters, int64_t kernel,
                          int64_t stride, const ResNetOptions& options) {
  const Output y = Conv2D(
      scope, name, x, filters, kernel,
      {.stride = stride, .use_bias = false, .weights = HeNormalInitializer(), .weight_decay = options.weight_decay});
  return BatchNorm(
      scope, absl::StrCat(name, "/bn"), y,
      {.training = options.training, .momentum = options.batch_norm_momentum, .epsilon = options.batch_norm_epsilon});
}

Output ShortcutOf(const Scope& scope, Output x, int64_t filters, int64_t stride, const ResNetOptions& options) {
  if (!x.valid() || (stride == 1 && x.shape()[-1] == filters)) return x;
  if (options.shortcut == Shortcut::kProjection) {
    return ConvolutionAndNorm(scope, "shortcut", x, filters, 1, stride, options);
  }
  const Scope shortcut = scope.NameScope("shortcut");
  const Output coarse =
      ops::StridedSlice(shortcut, x, {0, 0, 0}, {ops::kSliceEnd, ops::kSliceEnd, ops::kSliceEnd}, {1, stride, stride});
  const int64_t added = filters - x.shape()[-1], before = added / 2;
  return ops::Pad(shortcut, coarse, {{0, 0}, {0, 0}, {0, 0}, {before, added - before}});
}

Output Block(const Scope& scope, Output x, int64_t filters, int64_t stride, const ResNetOptions& options) {
  const Output shortcut = ShortcutOf(scope, x, filters, stride, options);
  Output y = Activate(scope, ConvolutionAndNorm(scope, "conv1", x, filters, 3, stride, options), Activation::kRelu);
  y = ConvolutionAndNorm(scope, "conv2", y, filters, 3, 1, options);
  return Activate(scope, ops::Add(scope, y, shortcut), Activation::kRelu);
}

}  // namespace

Output ResNet(OpScope scope, Output images, const ResNetOptions& options) {
  if (options.depth < 8 || options.depth % 6 != 2) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat("ResNet in scope '", scope.name(), "' has depth ", options.depth,
                                                       "; expected 6n + 2, such as 20, 32, 44, 56 or 110")));
    return Output();
  }
  const int blocks = (options.depth - 2) / 6;
  Output x = Activate(scope, ConvolutionAndNorm(scope, "conv1", images, 16, 3, 1, options), Activation::kRelu);
  for (int stage = 1; stage <= 3; ++stage) {
    const Scope stage_scope = scope.VariableScope(absl::StrCat("stage", stage));
    for (int block = 1; block <= blocks; ++block) {
      const int64_t stride = stage > 1 && block == 1 ? 2 : 1;
      x = Block(stage_scope.VariableScope(absl::StrCat("block", block)), x, int64_t{8} << stage, stride, options);
    }
  }
  return Dense(scope, "logits", ops::GlobalAvgPool(scope, x), options.classes,
               {.weights = HeNormalInitializer(), .weight_decay = options.weight_decay});
}

}  // namespace belfry::models
