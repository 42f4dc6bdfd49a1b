// U-Net (Ronneberger, Fischer and Brox, "U-Net: convolutional networks for biomedical image segmentation", 2015), with
// convolutions that keep the size of images, as is usual. The rules of models/layers/layers.h hold.
#pragma once

#include <cstdint>

#include "framework/graph/scope.h"

namespace belfry::models {

struct UNetOptions {
  int64_t classes = 2;
  int64_t width = 64;       // channels at full size; twice as many at each smaller one
  int depth = 4;            // how often the size is halved
  bool batch_norm = false;  // after each 3x3 convolution, instead of biases
  bool training = true;     // batch norms use the batch's statistics
};

// Logits [N, H, W, classes] for images [N, H, W, C], whose height and width are multiples of 2^depth if they are known,
// and must be. With one channel, one class and the other defaults, 31,030,593 parameters.
//
// Variables: down1/conv1/weights [3, 3, C, width], down1/conv1/biases, down1/conv2/..., down2/..., middle/...,
// up1/larger/weights [2, 2, width, 2 width], up1/conv1/weights [3, 3, 2 width, width], ..., logits/...
Output UNet(OpScope scope, Output images, const UNetOptions& options = {});

}  // namespace belfry::models
