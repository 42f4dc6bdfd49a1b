#include <array>

#include "absl/strings/str_cat.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/networks/pictures/convolution_and_norm_impl.h"
#include "models/networks/pictures/picture_networks.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {
namespace {

// The number of blocks in each stage.
struct Depth {
  int layers;
  std::array<int, 4> blocks;
  bool bottleneck;
};
constexpr Depth kDepths[] = {{18, {2, 2, 2, 2}, false},
                             {34, {3, 4, 6, 3}, false},
                             {50, {3, 4, 6, 3}, true},
                             {101, {3, 4, 23, 3}, true},
                             {152, {3, 8, 36, 3}, true}};

class ResNetBuilder {
 public:
  ResNetBuilder(const Depth& depth, bool pre_activation, const PictureNetworkOptions& options)
      : depth_(depth), pre_activation_(pre_activation), options_(options) {}

  Output Build(const Scope& scope, Output images) const {
    Output x = pre_activation_ ? Bare(scope, "conv1", images, 64, 7, 2)
                               : Activate(scope, Convolve(scope, "conv1", images, 64, 7, 2), Activation::kRelu);
    x = MaxPool(scope, "pool1", x, {.window = 3, .stride = 2, .padding = ops::Padding::Explicit(1, 1, 1, 1)});
    for (int stage = 0; stage < 4; ++stage) {
      const Scope at = scope.VariableScope(absl::StrCat("stage", stage + 1));
      for (int block = 0; block < depth_.blocks[stage]; ++block) {
        const Scope in = at.VariableScope(absl::StrCat("block", block + 1));
        const int64_t width = int64_t{64} << stage, stride = stage > 0 && block == 0 ? 2 : 1;
        x = pre_activation_ ? PreActivationBlock(in, x, width, stride) : Block(in, x, width, stride);
      }
    }
    if (pre_activation_) x = NormAndRelu(scope, "bn", x);
    return Dense(scope, "logits", ops::GlobalAvgPool(scope, x), options_.classes,
                 {.weight_decay = options_.weight_decay});
  }

 private:
  Output Convolve(const Scope& scope, absl::string_view name, Output x, int64_t filters, int64_t kernel, int64_t stride,
                  bool last = false) const {
    const double gamma = last ? 0 : 1;
    return ConvolutionAndNorm(scope, name, x, {.filters = filters, .kernel = kernel, .stride = stride, .gamma = gamma},
                              options_);
  }

  Output Block(const Scope& scope, Output x, int64_t width, int64_t stride) const {
    const int64_t filters = depth_.bottleneck ? 4 * width : width;
    Output shortcut = x;
    if (x.valid() && (stride != 1 || x.shape()[-1] != filters)) {
      shortcut = Convolve(scope, "shortcut", x, filters, 1, stride);
    }
    Output y = x;
    if (depth_.bottleneck) {
      y = Activate(scope, Convolve(scope, "conv1", y, width, 1, 1), Activation::kRelu);
      y = Activate(scope, Convolve(scope, "conv2", y, width, 3, stride), Activation::kRelu);
      y = Convolve(scope, "conv3", y, filters, 1, 1, /*last=*/true);
    } else {
      y = Activate(scope, Convolve(scope, "conv1", y, width, 3, stride), Activation::kRelu);
      y = Convolve(scope, "conv2", y, width, 3, 1, /*last=*/true);
    }
    return Activate(scope, ops::Add(scope, y, shortcut), Activation::kRelu);
  }

  Output Bare(const Scope& scope, absl::string_view name, Output x, int64_t filters, int64_t kernel,
              int64_t stride) const {
    const int64_t pad = kernel / 2;
    return Conv2D(scope, name, x, filters, kernel,
                  {.stride = stride,
                   .padding = ops::Padding::Explicit(pad, pad, pad, pad),
                   .use_bias = false,
                   .weights = HeNormalInitializer(),
                   .weight_decay = options_.weight_decay});
  }

  Output NormAndRelu(const Scope& scope, absl::string_view name, Output x) const {
    return Activate(scope,
                    BatchNorm(scope, name, x,
                              {.training = options_.training,
                               .momentum = options_.batch_norm_momentum,
                               .epsilon = options_.batch_norm_epsilon}),
                    Activation::kRelu);
  }

  // Nothing follows the sum, so that a block can pass on what it got.
  Output PreActivationBlock(const Scope& scope, Output x, int64_t width, int64_t stride) const {
    const Output first = NormAndRelu(scope, "bn1", x);
    Output shortcut = x;
    if (x.valid() && (stride != 1 || x.shape()[-1] != 4 * width)) {
      shortcut = Bare(scope, "shortcut", first, 4 * width, 1, stride);
    }
    Output y = NormAndRelu(scope, "bn2", Bare(scope, "conv1", first, width, 1, 1));
    y = NormAndRelu(scope, "bn3", Bare(scope, "conv2", y, width, 3, stride));
    return ops::Add(scope, Bare(scope, "conv3", y, 4 * width, 1, 1), shortcut);
  }

  const Depth& depth_;
  const bool pre_activation_;
  const PictureNetworkOptions& options_;
};

}  // namespace

Output DeepResNet(OpScope scope, Output images, int depth, const PictureNetworkOptions& options) {
  for (const Depth& known : kDepths) {
    if (known.layers == depth) return ResNetBuilder(known, /*pre_activation=*/false, options).Build(scope, images);
  }
  scope.Fail(absl::InvalidArgumentError(
      absl::StrCat("DeepResNet in scope '", scope.name(), "' has depth ", depth, "; expected 18, 34, 50, 101 or 152")));
  return Output();
}

Output DeepResNetV2(OpScope scope, Output images, int depth, const PictureNetworkOptions& options) {
  for (const Depth& known : kDepths) {
    if (known.layers == depth && known.bottleneck) {
      return ResNetBuilder(known, /*pre_activation=*/true, options).Build(scope, images);
    }
  }
  scope.Fail(absl::InvalidArgumentError(
      absl::StrCat("DeepResNetV2 in scope '", scope.name(), "' has depth ", depth, "; expected 50, 101 or 152")));
  return Output();
}

}  // namespace belfry::models
