#include "models/networks/pictures/picture_networks.h"

#include <algorithm>

namespace belfry::models {
namespace {

template <int depth>
Output ResNetOf(OpScope scope, Output images, const PictureNetworkOptions& options) {
  return DeepResNet(scope, images, depth, options);
}

constexpr PictureNetwork kNetworks[] = {
    {"resnet18", 224, 11'689'512, ResNetOf<18>},
    {"resnet34", 224, 21'797'672, ResNetOf<34>},
    {"resnet50", 224, 25'557'032, ResNetOf<50>},
    {"resnet101", 224, 44'549'160, ResNetOf<101>},
    {"resnet152", 224, 60'192'808, ResNetOf<152>},
    {"vgg16", 224, 138'357'544, Vgg16},
    {"alexnet", 224, 61'100'840, AlexNet},
    {"mobilenet_v2", 224, 3'504'872, MobileNetV2},
    {"efficientnet_b0", 224, 5'288'548, EfficientNetB0},
    {"vit_s16", 224, 22'050'664, VisionTransformerS16},
};

}  // namespace

absl::Span<const PictureNetwork> PictureNetworks() { return kNetworks; }

const PictureNetwork* FindPictureNetwork(absl::string_view name) {
  const auto* const found = std::find_if(std::begin(kNetworks), std::end(kNetworks),
                                         [&](const PictureNetwork& network) { return network.name == name; });
  return found == std::end(kNetworks) ? nullptr : found;
}

}  // namespace belfry::models
