// A small convolutional network for fast training on CIFAR-10 (Jordan, "94% on CIFAR-10 in 3.29 seconds on a single
// GPU", 2024, §3; after Page, "How to train your ResNet", 2018).
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/tensor.h"
#include "framework/graph/scope.h"

namespace belfry::models {

struct SpeedrunNetOptions {
  int64_t classes = 10;
  std::vector<int64_t> widths = {64, 256, 256};  // the filters of each group
  // The last layer's weights start with the standard deviation 1, and the logits are divided by the last width, instead
  // of by 9 (Jordan, airbench94_muon, 2024).
  bool unit_logits = false;
  bool training = true;  // BatchNormOptions::training
  // The initial weights of the first layer, float32 [2, 2, C, 8 C], as of data::WhiteningFilters. Empty: random ones.
  Tensor whitening = {};
};
// The logits [N, classes] for images [N, H, W, C] with known H, W and C. For images of 32 x 32 x 3 it has 1,971,640
// parameters, the first layer's 288 weights among them, which are meant to be frozen:
//
//   whiten                     2x2 without padding, biases, GELU       31x31x24
//   group1, 64 filters         conv1, max 2x2 / 2, bn1, GELU           15x15x64
//                              conv2, bn2, GELU                        15x15x64
//   group2, 256 filters        likewise                                7x7x256
//   group3, 256 filters        likewise                                3x3x256
//   max over 3x3 / 3, Dense without biases, times 1/9
//
// Convolutions of groups are 3x3 with padding and without biases. As many of their filters as there are input channels,
// or all, start as the identity; the others, and the last layer, uniform in +-1 / sqrt(fan_in). Batch norms have no
// scale, epsilon 1e-12 and momentum 0.6. Variables: whiten/weights, whiten/biases, group1/conv1/weights,
// group1/bn1/beta, ... logits/weights. Run the kUpdateOps of this scope with every step (models/layers/batch_norm.h).
// InvalidArgument, which sticks to the graph, for images that a pooling leaves nothing of.
Output SpeedrunNet(OpScope scope, Output images, const SpeedrunNetOptions& options = {});

}  // namespace belfry::models
