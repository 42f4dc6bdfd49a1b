#include "models/networks/unet.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/layers/layers_impl.h"
#include "ops/array.h"

namespace belfry::models {
namespace {

// Two 3x3 convolutions.
Output Convolutions(const Scope& scope, Output x, int64_t filters, const UNetOptions& options) {
  for (const char* name : {"conv1", "conv2"}) {
    x = Conv2D(scope, name, x, filters, 3, {.use_bias = !options.batch_norm, .weights = HeNormalInitializer()});
    if (options.batch_norm) x = BatchNorm(scope, absl::StrCat(name, "/bn"), x, {.training = options.training});
    x = Activate(scope, x, Activation::kRelu);
  }
  return x;
}

}  // namespace

Output UNet(OpScope scope, Output images, const UNetOptions& options) {
  constexpr int kDeepest = 16;
  const auto fail = [&](auto... what) { return Reject(scope, "UNet", "", absl::StrCat(what...), images); };
  if (options.depth < 1 || options.depth > kDeepest) {
    return fail("has depth ", options.depth, "; expected 1 to ", kDeepest);
  }
  if (!images.valid() || images.shape().rank() != 4) return fail("needs images [N, H, W, C]");
  for (const int axis : {1, 2}) {
    const int64_t extent = images.shape()[axis], multiple = int64_t{1} << options.depth;
    if (extent != Shape::kUnknown && extent % multiple != 0) {
      return fail("needs images whose height and width are multiples of ", multiple);
    }
  }
  Output x = images;
  std::vector<Output> kept;
  for (int level = 0; level < options.depth; ++level) {
    const Scope at = scope.VariableScope(absl::StrCat("down", level + 1));
    kept.push_back(Convolutions(at, x, options.width << level, options));
    x = MaxPool(at, "pool", kept.back(), {.padding = ops::Padding::Valid()});
  }
  x = Convolutions(scope.VariableScope("middle"), x, options.width << options.depth, options);
  for (int level = options.depth - 1; level >= 0; --level) {
    const Scope at = scope.VariableScope(absl::StrCat("up", level + 1));
    const int64_t filters = options.width << level;
    x = Conv2DTranspose(at, "larger", x, filters, 2,
                        {.stride = 2, .padding = ops::Padding::Valid(), .weights = HeNormalInitializer()});
    x = Convolutions(at, ops::Concat(at, {kept[level], x}, 3), filters, options);
  }
  return Conv2D(scope, "logits", x, options.classes, 1);
}

}  // namespace belfry::models
