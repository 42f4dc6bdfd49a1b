// The network of TensorFlow's CIFAR-10 tutorial, after Krizhevsky's cuda-convnet.
#pragma once

#include <cstdint>

#include "framework/graph/scope.h"

namespace belfry::models {

struct CifarNetOptions {
  int64_t classes = 10;
  double weight_decay = 0.004;  // for local3 and local4
};
// The logits [N, classes] for images [N, H, W, C] with known H, W and C. For the tutorial's 24x24x3 images the network
// has 1,068,298 parameters:
//
//   conv1            5x5x3x64, relu           24x24x64     weights 0.05, biases 0
//   pool1, norm1     max 3x3 / 2, LRN         12x12x64
//   conv2            5x5x64x64, relu          12x12x64     weights 0.05, biases 0.1
//   norm2, pool2     LRN, max 3x3 / 2         6x6x64
//   local3           2304x384, relu           384          weights 0.04, biases 0.1, weight decay
//   local4           384x192, relu            192          weights 0.04, biases 0.1, weight decay
//   softmax_linear   192x10                   10           weights 1/192, biases 0
//
// Padding is SAME throughout; weights start as truncated normals with the standard deviation given. LRN: radius 4, bias
// 1, alpha 0.001/9, beta 0.75. Variables: conv1/weights, conv1/biases, ... softmax_linear/biases.
Output CifarNet(OpScope scope, Output images, const CifarNetOptions& options = {});

}  // namespace belfry::models
