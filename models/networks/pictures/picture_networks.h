// Networks for pictures, as they were published for ImageNet.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::models {

struct PictureNetworkOptions {
  int64_t classes = 1000;
  bool training = true;     // batch norms use the batch's statistics, and dropout drops
  double weight_decay = 0;  // of weights, not of batch norms and biases
  double dropout = -1;      // before the last layers, where a network has one; -1: the network's own
  double batch_norm_momentum = 0.9, batch_norm_epsilon = 1e-5;
};

// The networks of He, Zhang, Ren and Sun, "Deep residual learning for image recognition" (2016), table 1: depth 18, 34,
// 50, 101 or 152. From depth 50 on, a block that makes the image smaller does so in its 3x3 convolution and not in its
// first one, as in torchvision and NVIDIA's "v1.5". The last batch norm of each block starts at 0 (Goyal et al.,
// "Accurate, large minibatch SGD", 2017). Parameters with 1,000 classes: 11,689,512 (18), 21,797,672 (34), 25,557,032
// (50), 44,549,160 (101), 60,192,808 (152).
Output DeepResNet(OpScope scope, Output images, int depth, const PictureNetworkOptions& options = {});

// The same with the norms and activations before each convolution, and nothing but sums from block to block: He, Zhang,
// Ren and Sun, "Identity mappings in deep residual networks" (2016). Depth 50, 101 or 152. Parameters: 25,549,352,
// 44,541,480, 60,185,128.
Output DeepResNetV2(OpScope scope, Output images, int depth, const PictureNetworkOptions& options = {});

// Szegedy et al., "Rethinking the Inception architecture for computer vision" (2016), as in torchvision and without the
// auxiliary classifier: 23,834,568 parameters.
Output InceptionV3(OpScope scope, Output images, const PictureNetworkOptions& options = {});

// Configuration D, 16 layers, of Simonyan and Zisserman, "Very deep convolutional networks for large-scale image
// recognition" (2015). For images of known size: of 224 x 224, 138,357,544 parameters.
Output Vgg16(OpScope scope, Output images, const PictureNetworkOptions& options = {});

// Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014), the one-tower form that
// torchvision has. For images of known size: of 224 x 224, 61,100,840 parameters.
Output AlexNet(OpScope scope, Output images, const PictureNetworkOptions& options = {});

// Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks" (2018), table 2, of width 1: 3,504,872
// parameters.
Output MobileNetV2(OpScope scope, Output images, const PictureNetworkOptions& options = {});

// Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks" (2019), table 1, without
// stochastic depth: 5,288,548 parameters.
Output EfficientNetB0(OpScope scope, Output images, const PictureNetworkOptions& options = {});

// Dosovitskiy et al., "An image is worth 16x16 words" (2021), with patches of 16 pixels, width 384, 12 layers and 6
// heads ("S/16" of Touvron et al., "Training data-efficient image transformers", 2021). For images of known size, a
// multiple of 16: of 224 x 224, 22,050,664 parameters.
Output VisionTransformerS16(OpScope scope, Output images, const PictureNetworkOptions& options = {});

// All of the above by name: "resnet18" ... "resnet152", "resnet50_v2" ... "resnet152_v2", "inception_v3", "vgg16",
// "alexnet", "mobilenet_v2", "efficientnet_b0", "vit_s16". Each takes images [N, H, W, C] with known C, normalised by
// channel, and gives logits [N, classes].
struct PictureNetwork {
  absl::string_view name;
  int64_t size;        // the usual height and width
  int64_t smallest;    // the least height and width
  int64_t multiple;    // of which they must be multiples
  int64_t parameters;  // with 3 channels and 1,000 classes, at that size
  Output (*build)(OpScope scope, Output images, const PictureNetworkOptions& options);
};
absl::Span<const PictureNetwork> PictureNetworks();
// Null if there is none of that name.
const PictureNetwork* FindPictureNetwork(absl::string_view name);

}  // namespace belfry::models
