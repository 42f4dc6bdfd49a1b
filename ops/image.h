// Preprocessing of images as a part of the step, so that a host gives bytes and a GPU does the rest.
#pragma once

#include <cstdint>

#include "framework/data/augment.h"
#include "framework/graph/scope.h"

namespace belfry::ops {

// The images that data::Augmenter makes of images, uint8 [N, H, W, C]: float32 [N, h, w, C]. `positions`, int64 [N, 2],
// has the epoch and the index of each, on which its random numbers depend. On every device they are the Augmenter's,
// and results differ by float32 rounding only. Not differentiable. An error of the node if the policy does not fit the
// images (Augmenter::Create); on GPUs, images of more than 64 channels are, too.
Output AugmentImages(OpScope scope, Output images, Output positions, const data::ImagePolicy& policy, uint64_t seed);

// The same of images in `all`, uint8 [M, H, W, C], by the indices of `positions`. An index outside of [0, M) is an
// error of the step on a CPU, and an image of NaN on a GPU.
Output GatherAndAugmentImages(OpScope scope, Output all, Output positions, const data::ImagePolicy& policy,
                              uint64_t seed);

}  // namespace belfry::ops
