// Residual networks for CIFAR (He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2015, §4.2).
#pragma once

#include <cstdint>

#include "framework/graph/scope.h"

namespace belfry::models {

// The shortcut around a block that halves the image and doubles the channels (§3.3, §4.1).
enum class Shortcut {
  kPad,         // option A: every second pixel, zeros in the new channels; no parameters
  kProjection,  // option B: a 1x1 convolution with batch norm
};

struct ResNetOptions {
  int depth = 20;  // 6n + 2: 20, 32, 44, 56, 110 ...
  int64_t classes = 10;
  Shortcut shortcut = Shortcut::kPad;
  double weight_decay = 1e-4;  // of all convolutions and the last layer's weights, but not of batch norms and biases
  bool training = true;        // BatchNormOptions::training
  double batch_norm_momentum = 0.9;
  double batch_norm_epsilon = 1e-5;
};
// The logits [N, classes] for images [N, H, W, C] with known C: a 3x3 convolution with 16 filters; three stages of n
// blocks of two 3x3 convolutions with 16, 32 and 64 filters, where the second and third stage begin with stride 2; the
// mean over the image; a dense layer. Each convolution is followed by batch norm and relu; in a block's second one the
// shortcut is added before the relu. Weights start as in He et al. (2015).
//
// Trainable variables, for n blocks per stage, shortcuts of option A, 3 channels and 10 classes:
//   convolutions 432 + 2n 2304 + (4608 + (2n - 1) 9216) + (18432 + (2n - 1) 36864), batch norms 2 (16 + 2n 112),
//   logits 650: 269,722 (ResNet-20), 464,154 (32), 658,586 (44), 853,018 (56).
// Named conv1/weights, conv1/bn/gamma, stage1/block1/conv1/weights, ... logits/weights, logits/biases. Run the
// kUpdateOps of this scope with every step (models/layers/batch_norm.h).
Output ResNet(OpScope scope, Output images, const ResNetOptions& options = {});

}  // namespace belfry::models
