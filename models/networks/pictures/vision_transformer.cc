#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/layers/attention.h"
#include "models/layers/layers.h"
#include "models/layers/layers_impl.h"
#include "models/layers/norm_layers.h"
#include "models/networks/pictures/picture_networks.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {
namespace {

constexpr int64_t kPatch = 16, kWidth = 384;
constexpr int kLayers = 12, kHeads = 6;
constexpr double kStddev = 0.02, kEpsilon = 1e-6;

}  // namespace

Output VisionTransformerS16(OpScope scope, Output images, const PictureNetworkOptions& options) {
  const auto extent = [&](int axis) { return images.valid() ? images.shape()[axis] : 0; };
  if (!images.valid() || images.shape().rank() != 4 || extent(1) < kPatch || extent(2) < kPatch ||
      extent(1) % kPatch != 0 || extent(2) % kPatch != 0) {
    return Reject(scope, "VisionTransformerS16", "", "needs images of known size, a multiple of 16", images);
  }
  const Initializer weights = TruncatedNormalInitializer(kStddev);
  const int64_t patches = extent(1) / kPatch * (extent(2) / kPatch);
  Output x = Conv2D(scope, "patches", images, kWidth, kPatch,
                    {.stride = kPatch, .padding = ops::Padding::Valid(), .weights = weights});
  x = ops::Reshape(scope, x, {ops::Extent::Of(images, 0), patches, kWidth});
  const Parameter token = GetParameter(scope, "class_token", {1, 1, kWidth}, weights, x.dtype());
  const Parameter positions = GetParameter(scope, "positions", {1, patches + 1, kWidth}, weights, x.dtype());
  const Output first = ops::StridedSlice(scope, x, {0, 0}, {ops::kSliceEnd, 1});
  x = ops::Concat(scope, {ops::BroadcastLike(scope, token.used, first), x}, 1);
  x = ops::Add(scope, x, positions.used);
  const EncoderLayerOptions layer = {.heads = kHeads,
                                     .norm_first = true,
                                     .dropout = std::max(options.dropout, 0.0),
                                     .training = options.training,
                                     .epsilon = kEpsilon,
                                     .weights = weights};
  for (int i = 0; i < kLayers && x.valid(); ++i) {
    x = EncoderLayer(scope, absl::StrCat("layer", i), x, layer);
  }
  x = ops::StridedSlice(scope, x, {0, 0}, {ops::kSliceEnd, 1});
  x = LayerNorm(scope, "final_norm", ops::Reshape(scope, x, {ops::Extent::Of(images, 0), kWidth}), kEpsilon);
  return Dense(scope, "logits", x, options.classes, {.weights = weights, .weight_decay = options.weight_decay});
}

}  // namespace belfry::models
