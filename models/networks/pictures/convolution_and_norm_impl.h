// The part that most networks for pictures are made of. Internal.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"
#include "models/layers/layers.h"
#include "models/networks/pictures/picture_networks.h"

namespace belfry::models {

struct ConvolutionAndNormOptions {
  int64_t filters = 0;
  Size2D kernel = 1;
  int64_t stride = 1, groups = 1;
  double gamma = 1;  // BatchNormOptions::gamma
  bool pads = true;  // by half of the kernel on every side
};
// A convolution and its batch norm: x [N, H, W, C] gives [N, H', W', filters].
// Variables: `name`/weights and those of `name`/bn.
Output ConvolutionAndNorm(const Scope& scope, absl::string_view name, Output x, const ConvolutionAndNormOptions& part,
                          const PictureNetworkOptions& options);

}  // namespace belfry::models
