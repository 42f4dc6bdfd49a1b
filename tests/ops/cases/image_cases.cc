// Cases of ops that preprocess images, against data::Augmenter, which tests/framework/data compares with definitions.

#include "framework/data/augment.h"
#include "ops/image.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

using data::ImagePolicy;

Array Augmented(const Array& images, const Array& positions, const ImagePolicy& policy, bool gathers) {
  auto augmenter =
      data::Augmenter::Create({"image", DType::kUInt8, images.shape.Remove(0)}, policy, /*seed=*/7).value();
  const int64_t n = positions.shape[0], to = augmenter.output_shape().elements();
  const int64_t from = images.shape.elements(1, images.shape.rank());
  Array y(augmenter.output_shape().Insert(0, n));
  std::vector<uint8_t> image(from);
  std::vector<float> augmented(to);
  for (int64_t i = 0; i < n; ++i) {
    const auto epoch = static_cast<int64_t>(positions[2 * i]), index = static_cast<int64_t>(positions[2 * i + 1]);
    for (int64_t k = 0; k < from; ++k) image[k] = static_cast<uint8_t>(images[(gathers ? index : i) * from + k]);
    augmenter.Apply(image.data(), epoch, index, augmented.data());
    for (int64_t k = 0; k < to; ++k) y[i * to + k] = augmented[k];
  }
  return y;
}

OpCase AugmentCase(const std::string& name, const ImagePolicy& policy, bool gathers = false) {
  OpCase op_case{.name = name,
                 .inputs = {{.shape = {5, 7, 9, 3}, .low = 0, .high = 256, .dtype = DType::kUInt8},
                            {.shape = {5, 2}, .low = 0, .high = 5, .dtype = DType::kInt64}},
                 .build =
                     [=](const Scope& scope, const Ins& in) {
                       return Outs{gathers ? ops::GatherAndAugmentImages(scope, in[0], in[1], policy, 7)
                                           : ops::AugmentImages(scope, in[0], in[1], policy, 7)};
                     },
                 .reference = [=](const Arrays& in) { return Arrays{Augmented(in[0], in[1], policy, gathers)}; },
                 .dtypes = {DType::kFloat32},
                 .more_shapes = {{{0, 8, 6, 3}, {0, 2}}, {{1, 6, 6, 3}, {1, 2}}, {{70, 32, 32, 3}, {70, 2}}},
                 .tolerance = 8,
                 .gradient = false};
  if (!gathers) return op_case;
  op_case.more_shapes = {{{5, 6, 7, 3}, {0, 2}}, {{5, 6, 7, 3}, {1, 2}}, {{300, 24, 25, 3}, {64, 2}}};
  return op_case;
}

}  // namespace

std::vector<OpCase> ImageCases() {
  const ImagePolicy tutorial = {.crop = 6,
                                .random_crop = true,
                                .random_flip = true,
                                .brightness = 63,
                                .contrast_lower = 0.2f,
                                .contrast_upper = 1.8f,
                                .normalise = ImagePolicy::Normalise::kPerImage};
  const ImagePolicy resnet = {.pad = 4,
                              .crop = 6,
                              .random_crop = true,
                              .random_flip = true,
                              .normalise = ImagePolicy::Normalise::kPerChannel,
                              .mean = {120, 130, 90},
                              .deviation = {60, 50, 70},
                              .cutout = 3};
  ImagePolicy contrast = resnet;
  contrast.contrast_lower = contrast.contrast_upper = 0.5f;
  contrast.brightness = 10;
  return {AugmentCase("AugmentImagesPlain", {}),
          AugmentCase("AugmentImagesTutorial", tutorial),
          AugmentCase("AugmentImagesPadded", resnet),
          AugmentCase("AugmentImagesContrast", contrast),
          AugmentCase("AugmentImagesCentre", {.crop = 6, .normalise = ImagePolicy::Normalise::kPerImage}),
          AugmentCase("AugmentImagesGathered", tutorial, /*gathers=*/true)};
}

}  // namespace belfry::harness
