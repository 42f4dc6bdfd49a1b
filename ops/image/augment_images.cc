#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/image.h"
#include "ops/image/image_ops.h"

namespace belfry::ops {
namespace {

using Normalise = data::ImagePolicy::Normalise;

constexpr DType kImageTypes[] = {DType::kFloat32};
constexpr int64_t kMaxParts = 64;

// The policy as attributes.
Attrs AttrsOf(const data::ImagePolicy& policy, uint64_t seed, bool gathers) {
  const auto numbers = [](const std::vector<float>& from) {
    return Tensor::Of<float>(absl::MakeConstSpan(from), Shape({static_cast<int64_t>(from.size())}));
  };
  return {{"T", DType::kFloat32},
          {"seed", static_cast<int64_t>(seed)},
          {"gathers", gathers},
          {"pad", policy.pad},
          {"reflect", policy.reflect},
          {"crop", policy.crop},
          {"random_crop", policy.random_crop},
          {"random_flip", policy.random_flip},
          {"alternating_flip", policy.alternating_flip},
          {"brightness", static_cast<double>(policy.brightness)},
          {"contrast_lower", static_cast<double>(policy.contrast_lower)},
          {"contrast_upper", static_cast<double>(policy.contrast_upper)},
          {"normalise", static_cast<int64_t>(policy.normalise)},
          {"mean", numbers(policy.mean)},
          {"deviation", numbers(policy.deviation)},
          {"cutout", policy.cutout}};
}

absl::StatusOr<std::vector<Shape>> AugmentShape(const ShapeArgs& args) {
  const Shape &images = args.inputs[0], &positions = args.inputs[1];
  if (images.rank() != 4) {
    return absl::InvalidArgumentError(absl::StrCat("images must be [N, H, W, C], not ", images.ToString()));
  }
  if (!positions.CompatibleWith({args.attrs.Bool("gathers") ? Shape::kUnknown : images[0], 2})) {
    return absl::InvalidArgumentError(
        absl::StrCat("positions must be [N, 2], the epoch and the index of each image, not ", positions.ToString(),
                     " for images ", images.ToString()));
  }
  if (!images.Remove(0).known()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the extents of an image must be known, unlike ", images.ToString()));
  }
  ASSIGN_OR_RETURN(const data::Augmenter augmenter, AugmenterOf(args.attrs, images));
  const bool counted = args.attrs.Bool("gathers") || images[0] == Shape::kUnknown;  // by the positions
  return std::vector<Shape>{augmenter.output_shape().Insert(0, counted ? positions[0] : images[0])};
}

// An Augmenter has scratch memory, so each part of the batch has its own; how many parts there are changes no bit.
absl::StatusOr<Kernel> MakeAugment(const KernelSpec& spec) {
  const Shape& images = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const data::Augmenter augmenter, AugmenterOf(spec.attrs, images));
  const int64_t n = spec.outputs[0].shape[0], parts = std::clamp<int64_t>(n, 1, kMaxParts);
  auto augmenters = std::make_shared<std::vector<data::Augmenter>>(parts, augmenter);
  return Kernel{[augmenters = std::move(augmenters), n, parts, rows = images[0], gathers = spec.attrs.Bool("gathers"),
                 from = images.elements(1, 4),
                 to = augmenter.output_shape().elements()](const KernelContext& context) -> absl::Status {
    const auto* const bytes = context.input<uint8_t>(0);
    const auto* const positions = context.input<int64_t>(1);
    auto* const y = context.output<float>(0);
    std::atomic<int64_t> outside{-1};
    ParallelFor(parts, static_cast<double>(4 * to * n / parts), [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        for (int64_t i = part * n / parts; i < (part + 1) * n / parts; ++i) {
          const int64_t epoch = positions[2 * i], index = positions[2 * i + 1], row = gathers ? index : i;
          if (row < 0 || row >= rows) {
            outside.store(i, std::memory_order_relaxed);
            continue;
          }
          (*augmenters)[part].Apply(bytes + row * from, epoch, index, y + i * to);
        }
      }
    });
    if (outside.load() < 0) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat("positions[", outside.load(), "] has index ",
                                              positions[2 * outside.load() + 1], " of ", rows, " images"));
  }};
}

Output Add(const Scope& scope, Output images, Output positions, const data::ImagePolicy& policy, uint64_t seed,
           bool gathers) {
  return scope.Add("AugmentImages", {images, positions}, AttrsOf(policy, seed, gathers));
}

}  // namespace

absl::StatusOr<data::Augmenter> AugmenterOf(const Attrs& attrs, const Shape& images) {
  const auto numbers = [&](absl::string_view name) {
    const absl::Span<const float> values = attrs.Get<Tensor>(name).span<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  data::ImagePolicy policy = {.pad = attrs.Int("pad"),
                              .reflect = attrs.Bool("reflect"),
                              .crop = attrs.Int("crop"),
                              .random_crop = attrs.Bool("random_crop"),
                              .random_flip = attrs.Bool("random_flip"),
                              .alternating_flip = attrs.Bool("alternating_flip"),
                              .brightness = static_cast<float>(attrs.Float("brightness")),
                              .contrast_lower = static_cast<float>(attrs.Float("contrast_lower")),
                              .contrast_upper = static_cast<float>(attrs.Float("contrast_upper")),
                              .normalise = static_cast<Normalise>(attrs.Int("normalise")),
                              .mean = numbers("mean"),
                              .deviation = numbers("deviation"),
                              .cutout = attrs.Int("cutout")};
  return data::Augmenter::Create({.name = "images", .dtype = DType::kUInt8, .shape = images.Remove(0)},
                                 std::move(policy), static_cast<uint64_t>(attrs.Int("seed")));
}

Output AugmentImages(OpScope scope, Output images, Output positions, const data::ImagePolicy& policy, uint64_t seed) {
  return Add(scope, images, positions, policy, seed, /*gathers=*/false);
}

Output GatherAndAugmentImages(OpScope scope, Output all, Output positions, const data::ImagePolicy& policy,
                              uint64_t seed) {
  return Add(scope, all, positions, policy, seed, /*gathers=*/true);
}

void RegisterImageOps(OpRegistry& registry) {
  registry.Add({.name = "AugmentImages",
                .inputs = {{.name = "images", .type = "uint8"}, {.name = "positions", .type = "int64"}},
                .outputs = {{.name = "y"}},
                .types = {{"T", kImageTypes}},
                .attrs = {{"seed", int64_t{0}, true},
                          {"gathers", false},
                          {"pad", int64_t{0}},
                          {"reflect", false},
                          {"crop", int64_t{0}},
                          {"random_crop", false},
                          {"random_flip", false},
                          {"alternating_flip", false},
                          {"brightness", 0.0},
                          {"contrast_lower", 1.0},
                          {"contrast_upper", 1.0},
                          {"normalise", int64_t{0}},
                          {"mean", Tensor()},
                          {"deviation", Tensor()},
                          {"cutout", int64_t{0}}},
                .shape = AugmentShape,
                // A product and a sum for each value, and the sums of the image's bytes.
                .flops = [](const KernelSpec& of) { return 4.0 * static_cast<double>(of.outputs[0].shape.elements()); },
                .not_differentiable = true,
                .kernels = {{"CPU", DType::kFloat32, &MakeAugment}}});
}

}  // namespace belfry::ops
