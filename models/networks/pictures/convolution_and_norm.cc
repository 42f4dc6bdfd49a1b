#include "absl/strings/str_cat.h"
#include "models/layers/batch_norm.h"
#include "models/networks/pictures/convolution_and_norm_impl.h"

namespace belfry::models {

Output ConvolutionAndNorm(const Scope& scope, absl::string_view name, Output x, const ConvolutionAndNormOptions& part,
                          const PictureNetworkOptions& options) {
  const int64_t down = part.pads ? part.kernel.height / 2 : 0, across = part.pads ? part.kernel.width / 2 : 0;
  const Output y = Conv2D(scope, name, x, part.filters, part.kernel,
                          {.stride = part.stride,
                           .padding = ops::Padding::Explicit(down, down, across, across),
                           .groups = part.groups,
                           .use_bias = false,
                           .weights = HeNormalInitializer(),
                           .weight_decay = options.weight_decay});
  return BatchNorm(scope, absl::StrCat(name, "/bn"), y,
                   {.training = options.training,
                    .momentum = options.batch_norm_momentum,
                    .epsilon = options.batch_norm_epsilon,
                    .gamma = part.gamma});
}

}  // namespace belfry::models
