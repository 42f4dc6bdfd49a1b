#include "models/weights/foreign_weights.h"

namespace belfry::models {
namespace {

constexpr WeightRule kResNetRules[] = {
    {"conv1.weight", "conv1/weights", WeightLayout::kFilter},
    {"bn1.weight", "conv1/bn/gamma"},
    {"bn1.bias", "conv1/bn/beta"},
    {"bn1.running_mean", "conv1/bn/moving_mean"},
    {"bn1.running_var", "conv1/bn/moving_variance"},
    {"layer#.#.conv#.weight", "stage{0}/block{1+1}/conv{2}/weights", WeightLayout::kFilter},
    {"layer#.#.bn#.weight", "stage{0}/block{1+1}/conv{2}/bn/gamma"},
    {"layer#.#.bn#.bias", "stage{0}/block{1+1}/conv{2}/bn/beta"},
    {"layer#.#.bn#.running_mean", "stage{0}/block{1+1}/conv{2}/bn/moving_mean"},
    {"layer#.#.bn#.running_var", "stage{0}/block{1+1}/conv{2}/bn/moving_variance"},
    {"layer#.#.downsample.0.weight", "stage{0}/block{1+1}/shortcut/weights", WeightLayout::kFilter},
    {"layer#.#.downsample.1.weight", "stage{0}/block{1+1}/shortcut/bn/gamma"},
    {"layer#.#.downsample.1.bias", "stage{0}/block{1+1}/shortcut/bn/beta"},
    {"layer#.#.downsample.1.running_mean", "stage{0}/block{1+1}/shortcut/bn/moving_mean"},
    {"layer#.#.downsample.1.running_var", "stage{0}/block{1+1}/shortcut/bn/moving_variance"},
    {"fc.weight", "logits/weights", WeightLayout::kOutIn},
    {"fc.bias", "logits/biases"},
};

constexpr WeightRules kResNetWeights = {"ResNet of torchvision", "layer1.0.conv1.weight", "", kResNetRules};

}  // namespace

const WeightRules& ResNetWeights() { return kResNetWeights; }

}  // namespace belfry::models
