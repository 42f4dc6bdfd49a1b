#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/layers/layers.h"
#include "models/networks/pictures/convolution_and_norm_impl.h"
#include "models/networks/pictures/picture_networks.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {
namespace {

// Blocks of one width: `count` of them, of which the first has the stride.
struct Stage {
  int64_t expansion, kernel, stride, filters;
  int count;
};
constexpr Stage kMobileNetV2[] = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 3, 2, 32, 3}, {6, 3, 2, 64, 4},
                                  {6, 3, 1, 96, 3}, {6, 3, 2, 160, 3}, {6, 3, 1, 320, 1}};
constexpr Stage kEfficientNetB0[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                                     {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};

// Inverted residual blocks: a 1x1 convolution to more channels, one that is separate for each channel, and a 1x1
// convolution to fewer.
class MobileBuilder {
 public:
  MobileBuilder(absl::Span<const Stage> stages, Activation activation, bool excites,
                const PictureNetworkOptions& options)
      : stages_(stages), activation_(activation), excites_(excites), options_(options) {}

  Output Build(const Scope& scope, Output images) const {
    constexpr int64_t kFirst = 32, kLast = 1280;
    constexpr double kDropout = 0.2;
    Output x = Activate(scope, Convolve(scope, "conv1", images, kFirst, 3, 2, 1), activation_);
    int number = 0;
    for (const Stage& stage : stages_) {
      for (int i = 0; i < stage.count; ++i) {
        x = Block(scope.VariableScope(absl::StrCat("block", ++number)), x, stage, i == 0 ? stage.stride : 1);
      }
    }
    x = Activate(scope, Convolve(scope, "conv2", x, kLast, 1, 1, 1), activation_);
    x = Dropout(scope, "dropout", ops::GlobalAvgPool(scope, x), options_.dropout < 0 ? kDropout : options_.dropout,
                options_.training);
    return Dense(scope, "logits", x, options_.classes, {.weight_decay = options_.weight_decay});
  }

 private:
  Output Convolve(const Scope& scope, absl::string_view name, Output x, int64_t filters, int64_t kernel, int64_t stride,
                  int64_t groups) const {
    return ConvolutionAndNorm(scope, name, x,
                              {.filters = filters, .kernel = kernel, .stride = stride, .groups = groups}, options_);
  }

  // Scales each channel by a number in (0, 1) that all means over the picture decide (Hu, Shen and Sun,
  // "Squeeze-and-excitation networks", 2018).
  Output Excite(const Scope& scope, Output x, int64_t squeezed) const {
    Output scale = ops::GlobalAvgPool(scope, x, /*keep_dims=*/true);
    scale = Conv2D(scope, "squeeze", scale, squeezed, 1, {.activation = activation_});
    scale = Conv2D(scope, "excite", scale, x.shape()[-1], 1, {.activation = Activation::kSigmoid});
    return ops::Mul(scope, x, scale);
  }

  Output Block(const Scope& scope, Output x, const Stage& stage, int64_t stride) const {
    if (!x.valid()) return x;
    const int64_t channels = x.shape()[-1], expanded = channels * stage.expansion;
    Output y = x;
    if (stage.expansion > 1) y = Activate(scope, Convolve(scope, "expand", y, expanded, 1, 1, 1), activation_);
    y = Activate(scope, Convolve(scope, "depthwise", y, expanded, stage.kernel, stride, expanded), activation_);
    if (excites_ && y.valid()) y = Excite(scope, y, std::max<int64_t>(channels / 4, 1));
    y = Convolve(scope, "project", y, stage.filters, 1, 1, 1);
    return stride == 1 && channels == stage.filters ? ops::Add(scope, y, x) : y;
  }

  const absl::Span<const Stage> stages_;
  const Activation activation_;
  const bool excites_;
  const PictureNetworkOptions& options_;
};

}  // namespace

Output MobileNetV2(OpScope scope, Output images, const PictureNetworkOptions& options) {
  return MobileBuilder(kMobileNetV2, Activation::kRelu6, /*excites=*/false, options).Build(scope, images);
}

Output EfficientNetB0(OpScope scope, Output images, const PictureNetworkOptions& options) {
  return MobileBuilder(kEfficientNetB0, Activation::kSilu, /*excites=*/true, options).Build(scope, images);
}

}  // namespace belfry::models
