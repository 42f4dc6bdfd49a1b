// Statistics of the images of a dataset: means, deviations, and the filters that whiten their patches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/tensor.h"
#include "framework/data/augment.h"
#include "framework/data/dataset.h"

namespace belfry::data {

// The statistics of the field `name`, in one pass over the dataset. InvalidArgument if the dataset is empty or the
// field does not hold images; NotFound if there is none of that name; otherwise the dataset's own errors.
absl::StatusOr<ChannelStatistics> ComputeChannelStatistics(const Dataset& dataset, const std::string& name = "image");

// The mean of each value of a dataset's images, [H, W, C], in units of the bytes. Errors: as above.
absl::StatusOr<std::vector<float>> ComputeMeanImage(const Dataset& dataset, const std::string& name = "image");

struct WhiteningOptions {
  int64_t edge = 2;         // of the square patches
  int64_t examples = 5000;  // at most this many of the first examples
  double epsilon = 5e-4;    // added to the eigenvalues
};
// The filters of a convolution that whitens the patches of images: float32 [edge, edge, C, 2 edge edge C]. With v and
// l, the eigenvectors and eigenvalues of the second moments of all patches of the images, the filters are
// v / sqrt(l + epsilon), those of the largest eigenvalues first, and then their negatives (Page, "How to train your
// ResNet 8", 2019; Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, §3.2). So the first half of the
// responses to these patches has second moments l / (l + epsilon), and none mixed. In each eigenvector the component of
// the largest magnitude is positive. Each image goes through `policy` first, which must draw nothing at random. Errors:
// those of Augmenter::Create; InvalidArgument for no examples, patches larger than the images or of more than 256
// values.
absl::StatusOr<Tensor> WhiteningFilters(const Dataset& dataset, const ImagePolicy& policy,
                                        const std::string& name = "image", const WhiteningOptions& options = {});

}  // namespace belfry::data
