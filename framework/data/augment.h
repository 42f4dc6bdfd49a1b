// Image preprocessing: crop, flip, brightness, contrast, normalisation, cutout.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/shape.h"
#include "framework/base/tensor.h"
#include "framework/data/dataset.h"
#include "framework/data/image_rule.h"

namespace belfry::data {

// How a field of images, uint8 [H, W, C], becomes float32 [H, W, C]: the steps applied to each image, in this order.
// The default only converts bytes to floats.
struct ImagePolicy {
  enum class Normalise : uint8_t { kNone, kPerImage, kPerChannel, kPerPixel };

  int64_t pad = 0;           // pixels added on each side: black, or with kPerPixel 0 after the normalisation
  bool reflect = false;      // they show the mirror image of the inside instead, without the edge itself
  int64_t crop = 0;          // edge of the square to cut out; 0 keeps the whole (padded) image
  bool random_crop = false;  // any position with equal probability; otherwise the centre (rounded to the upper left)
  bool random_flip = false;  // left-right with probability 1/2
  // Left-right in every second epoch, from the first or the second one on with equal probability (Jordan, "94% on
  // CIFAR-10 in 3.29 seconds on a single GPU", 2024). Not together with random_flip.
  bool alternating_flip = false;
  float brightness = 0;  // adds a number uniform in [-brightness, brightness) to all pixels of the image, without
                         // clipping
  // Scales each pixel's distance from the mean of its channel: x -> (x - mean) * f + mean, f uniform in [lower, upper).
  float contrast_lower = 1, contrast_upper = 1;
  // kPerImage: (x - mean) / max(deviation, 1 / sqrt(values)) over all values of the image.
  // kPerChannel: (x - mean[c]) / deviation[c], with one mean and deviation per channel, in units of the bytes (0..255).
  // kPerPixel: the same with a mean for each value of the whole image, [H, W, C]. Not by steps on a GPU.
  Normalise normalise = Normalise::kNone;
  std::vector<float> mean = {}, deviation = {};
  // Edge of a square around a pixel of the crop, each with equal probability, in which the output is 0: the mean, if
  // the image is normalised. What lies outside of the crop is cut off (DeVries and Taylor, "Improved regularization of
  // convolutional neural networks with cutout", 2017). 0: none.
  int64_t cutout = 0;
};
// By the name of the field. All images of an example are drawn alike, so that a picture and its mask stay together.
using ImagePolicies = std::map<std::string, ImagePolicy>;

// The part of a program that applies the policies.
enum class AugmentBy : uint8_t {
  kWorkers,  // the threads that make batches: these hold float32 images
  kStep,     // the step, on the tower's device: batches hold the images' bytes
  // The step, of images that the device keeps in its memory, all of them: batches hold none. The threads read whole
  // examples all the same, for the other fields.
  kStepFromResident
};

// The name of the field that batches have for policies that a step applies: int64 [2], the epoch and the index in the
// dataset of each example.
inline constexpr char kPositionField[] = "position_in_data";

// The way a step makes the images of a field.
struct ImagesInStep {
  ImagePolicy policy;
  uint64_t seed = 0;
  Shape shape;           // of one image that it makes
  Tensor resident = {};  // with kStepFromResident: all images of the dataset, uint8 [M, H, W, C]
};

// TensorFlow 1's CIFAR-10 tutorial. Training: random 24 x 24 crop, flip, brightness 63, contrast [0.2, 1.8), per-image
// standardisation (which cancels the brightness; the tutorial does so too, and it is kept for the same order of random
// draws). Evaluation: the central 24 x 24, standardised.
ImagePolicy TutorialTraining();
ImagePolicy TutorialEvaluation();

// True for a field of uint8 [H, W, C].
bool HoldsImages(const Field& field);

// Mean and standard deviation of each channel over all pixels of a dataset's images, in units of the bytes
// (ComputeChannelStatistics, image_statistics.h).
struct ChannelStatistics {
  std::vector<float> mean = {}, deviation = {};
};

// He et al., "Deep residual learning" (2016), section 4.2. Training: 4 pixels of padding, random 32 x 32 crop, flip,
// per-channel normalisation. Evaluation: normalisation.
ImagePolicy ResNetTraining(const ChannelStatistics& statistics);
ImagePolicy ResNetEvaluation(const ChannelStatistics& statistics);

// Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU" (2024). Training: 2 pixels of mirrored padding, random
// 32 x 32 crop, alternating flip, per-channel normalisation. Evaluation is as in ResNetEvaluation.
ImagePolicy SpeedrunTraining(const ChannelStatistics& statistics);

// Exact sums over each channel of interleaved bytes, one row after the other.
class ChannelSums {
 public:
  ChannelSums() = default;
  // For rows of `row` values, a multiple of `channels`.
  ChannelSums(int64_t row, int64_t channels);
  // Forgets what was added.
  void Clear();
  void Add(const uint8_t* bytes, int64_t rows);
  // The sums over channel `c` of all values, and of their squares.
  uint64_t values(int64_t c) const { return values_[c]; }
  uint64_t squares(int64_t c) const { return squares_[c]; }

 private:
  std::vector<uint32_t> row_values_, row_squares_;  // by position in a row, so that neighbours are added at once
  std::vector<uint64_t> values_, squares_;          // by channel
};

// Applies a policy to the images of one field. Holds scratch memory, so it is not thread-safe: give each thread a copy.
class Augmenter {
 public:
  // InvalidArgument if the field does not hold images, or the policy does not fit them: a crop larger than the padded
  // image, a contrast range other than 0 <= lower <= upper, a wrong number of means, a non-positive deviation.
  // The random draws depend only on `seed` and the arguments of Apply.
  static absl::StatusOr<Augmenter> Create(const Field& images, ImagePolicy policy, uint64_t seed);

  // The policy as it applies to the images. The statistics of channels are the policy's.
  const ImageRule& rule() const { return rule_; }
  const ImagePolicy& policy() const { return policy_; }
  // Shape of one output image: [crop, crop, C], or the padded image's [H, W, C].
  const Shape& output_shape() const { return output_shape_; }

  // Reads `image`, the field's bytes of one example, and writes output_shape().elements() floats to `output` in the
  // order [H, W, C]. The same (epoch, index) gives the same bits, on any thread and in any order of calls.
  void Apply(const uint8_t* image, int64_t epoch, int64_t index, float* output);

 private:
  Augmenter() = default;
  // Cuts the crop out of an image with `pixel` bytes a pixel.
  void Crop(const uint8_t* image, int64_t pixel, const ImageDraw& draw, uint8_t* to);
  void SubtractMeans(const ImageDraw& draw, float* output);
  void CutOut(const ImageDraw& draw, float* output) const;
  void FindAffine(const ImageDraw& draw);

  ImagePolicy policy_;
  ImageRule rule_;
  Shape output_shape_;
  std::vector<uint8_t> cut_;      // the crop, flipped if drawn so
  std::vector<float> mean_cut_;   // the crop of the means of kPerPixel
  std::vector<int64_t> columns_;  // with `reflect`, the image's column that each column of the crop shows
  ChannelSums sums_;
  std::vector<float> scale_, bias_;  // of each value of a row of the crop
};

}  // namespace belfry::data
