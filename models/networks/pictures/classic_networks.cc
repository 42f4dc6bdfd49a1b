#include "absl/strings/str_cat.h"
#include "models/layers/layers.h"
#include "models/networks/pictures/picture_networks.h"

namespace belfry::models {
namespace {

constexpr double kDropout = 0.5;  // of both networks, before their two wide layers

Output Convolve(const Scope& scope, absl::string_view name, Output x, int64_t filters, int64_t kernel, int64_t stride,
                int64_t pad, const PictureNetworkOptions& options) {
  return Conv2D(scope, name, x, filters, kernel,
                {.stride = stride,
                 .padding = ops::Padding::Explicit(pad, pad, pad, pad),
                 .activation = Activation::kRelu,
                 .weights = HeNormalInitializer(),
                 .weight_decay = options.weight_decay});
}

// Two layers of 4,096, and the logits. Weights start as in the papers.
Output WideLayers(const Scope& scope, Output x, const PictureNetworkOptions& options) {
  const double rate = options.dropout < 0 ? kDropout : options.dropout;
  const Initializer small = NormalInitializer(0.01);
  const DenseOptions wide{.activation = Activation::kRelu, .weights = small, .weight_decay = options.weight_decay};
  x = Flatten(scope, x);
  for (const char* name : {"fc6", "fc7"}) {
    x = Dense(scope, name, Dropout(scope, absl::StrCat(name, "_dropout"), x, rate, options.training), 4096, wide);
  }
  return Dense(scope, "logits", x, options.classes, {.weights = small, .weight_decay = options.weight_decay});
}

}  // namespace

Output Vgg16(OpScope scope, Output images, const PictureNetworkOptions& options) {
  constexpr int kConvolutions[] = {2, 2, 3, 3, 3};
  constexpr int64_t kFilters[] = {64, 128, 256, 512, 512};
  Output x = images;
  for (int stage = 0; stage < 5; ++stage) {
    for (int i = 0; i < kConvolutions[stage]; ++i) {
      x = Convolve(scope, absl::StrCat("conv", stage + 1, "_", i + 1), x, kFilters[stage], 3, 1, 1, options);
    }
    x = MaxPool(scope, absl::StrCat("pool", stage + 1), x, {.padding = ops::Padding::Valid()});
  }
  return WideLayers(scope, x, options);
}

Output AlexNet(OpScope scope, Output images, const PictureNetworkOptions& options) {
  const auto pool = [&](absl::string_view name, Output x) {
    return MaxPool(scope, name, x, {.window = 3, .stride = 2, .padding = ops::Padding::Valid()});
  };
  Output x = pool("pool1", Convolve(scope, "conv1", images, 64, 11, 4, 2, options));
  x = pool("pool2", Convolve(scope, "conv2", x, 192, 5, 1, 2, options));
  x = Convolve(scope, "conv3", x, 384, 3, 1, 1, options);
  x = Convolve(scope, "conv4", x, 256, 3, 1, 1, options);
  x = pool("pool5", Convolve(scope, "conv5", x, 256, 3, 1, 1, options));
  return WideLayers(scope, x, options);
}

}  // namespace belfry::models
