#include "models/networks/pictures/picture_networks.h"

#include <algorithm>

namespace belfry::models {
namespace {

template <int depth>
Output ResNetOf(OpScope scope, Output images, const PictureNetworkOptions& options) {
  return DeepResNet(scope, images, depth, options);
}

template <int depth>
Output ResNetV2Of(OpScope scope, Output images, const PictureNetworkOptions& options) {
  return DeepResNetV2(scope, images, depth, options);
}

constexpr PictureNetwork kNetworks[] = {
    {"resnet18", 224, 8, 1, 11'689'512, ResNetOf<18>},
    {"resnet34", 224, 8, 1, 21'797'672, ResNetOf<34>},
    {"resnet50", 224, 8, 1, 25'557'032, ResNetOf<50>},
    {"resnet101", 224, 8, 1, 44'549'160, ResNetOf<101>},
    {"resnet152", 224, 8, 1, 60'192'808, ResNetOf<152>},
    {"resnet50_v2", 224, 8, 1, 25'549'352, ResNetV2Of<50>},
    {"resnet101_v2", 224, 8, 1, 44'541'480, ResNetV2Of<101>},
    {"resnet152_v2", 224, 8, 1, 60'185'128, ResNetV2Of<152>},
    {"inception_v3", 299, 75, 1, 23'834'568, InceptionV3},
    {"vgg16", 224, 32, 1, 138'357'544, Vgg16},
    {"alexnet", 224, 63, 1, 61'100'840, AlexNet},
    {"mobilenet_v2", 224, 8, 1, 3'504'872, MobileNetV2},
    {"efficientnet_b0", 224, 8, 1, 5'288'548, EfficientNetB0},
    {"vit_s16", 224, 16, 16, 22'050'664, VisionTransformerS16},
};

}  // namespace

absl::Span<const PictureNetwork> PictureNetworks() { return kNetworks; }

const PictureNetwork* FindPictureNetwork(absl::string_view name) {
  const auto* const found = std::find_if(std::begin(kNetworks), std::end(kNetworks),
                                         [&](const PictureNetwork& network) { return network.name == name; });
  return found == std::end(kNetworks) ? nullptr : found;
}

}  // namespace belfry::models
