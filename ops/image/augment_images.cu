#include <array>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"
#include "ops/gpu/divider_impl.h"
#include "ops/image/image_ops.h"

namespace belfry::ops {
namespace {

constexpr int64_t kMaxChannels = 64;

// A team's work on image i of the batch.
struct AugmentPlan {
  data::ImageRule rule;
  float mean[kMaxChannels], deviation[kMaxChannels];
  Divider by_channels, by_width;
  int64_t rows = 0;  // images there are
  bool gathers = false;

  // The byte of pixel (y, x) of the crop, channel c.
  BELFRY_GPU uint8_t Byte(const data::ImageDraw& draw, const uint8_t* image, int64_t y, int64_t x, int64_t c) const {
    int64_t row = draw.top + y, column = draw.left + (draw.flip ? rule.out_width - 1 - x : x);
    if (rule.reflect) {
      row = data::Mirrored(row, rule.height);
      column = data::Mirrored(column, rule.width);
    }
    if (row < 0 || row >= rule.height || column < 0 || column >= rule.width) return 0;
    return image[(row * rule.width + column) * rule.channels + c];
  }
};

// The memory that the threads of a block share.
struct AugmentShared {
  data::ByteSums sums[kMaxChannels];
  float scale[kMaxChannels], bias[kMaxChannels];
};

BELFRY_GPU void SumBytes(const AugmentPlan& plan, const data::ImageDraw& draw, const uint8_t* image,
                         const gpu::Team& team, AugmentShared& shared) {
  const auto pixels = static_cast<uint32_t>(plan.rule.pixels());
  for (int64_t c = 0; c < plan.rule.channels; ++c) {
    data::ByteSums own;
    for (uint32_t pixel = team.rank; pixel < pixels; pixel += team.size) {
      const uint32_t y = plan.by_width.Quotient(pixel);
      const uint64_t byte = plan.Byte(draw, image, y, pixel - y * static_cast<uint32_t>(plan.rule.out_width), c);
      own.values += byte;
      own.squares += byte * byte;
    }
    own = team.Reduce(own, [](const data::ByteSums& a, const data::ByteSums& b) {
      return data::ByteSums{a.values + b.values, a.squares + b.squares};
    });
    if (team.rank == 0) shared.sums[c] = own;
  }
  team.Wait();
}

// One block an image: sums of its bytes if the policy needs them, the map of each channel, and then all values.
BELFRY_GPU void AugmentImage(const AugmentPlan& plan, const uint8_t* images, const int64_t* positions, int64_t i,
                             const gpu::Team& team, AugmentShared& shared, float* y) {
  const data::ImageRule& rule = plan.rule;
  const auto values = static_cast<uint32_t>(rule.pixels() * rule.channels);
  const int64_t epoch = positions[2 * i], index = positions[2 * i + 1], row = plan.gathers ? index : i;
  float* const to = y + i * static_cast<int64_t>(values);
  if (row < 0 || row >= plan.rows) {
    for (uint32_t at = team.rank; at < values; at += team.size) to[at] = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const uint8_t* const image = images + row * rule.height * rule.width * rule.channels;
  const data::ImageDraw draw = data::DrawImage(rule, epoch, index);
  team.Wait();  // for the readers of what the block shared for its image before
  if (rule.needs_sums()) SumBytes(plan, draw, image, team, shared);
  for (int64_t c = team.rank; c < rule.channels; c += team.size) {
    const auto sums_of = [&](int64_t k) { return rule.needs_sums() ? shared.sums[k] : data::ByteSums(); };
    const data::ChannelAffine affine =
        data::AffineOf(rule, draw, data::MomentsOf(rule, draw, sums_of), sums_of(c), plan.mean[c], plan.deviation[c]);
    shared.scale[c] = static_cast<float>(affine.scale);
    shared.bias[c] = static_cast<float>(affine.bias);
  }
  team.Wait();
  for (uint32_t at = team.rank; at < values; at += team.size) {
    const uint32_t pixel = plan.by_channels.Quotient(at), line = plan.by_width.Quotient(pixel);
    const uint32_t c = at - pixel * static_cast<uint32_t>(rule.channels);
    const uint32_t x = pixel - line * static_cast<uint32_t>(rule.out_width);
    const auto byte = static_cast<float>(plan.Byte(draw, image, line, x, c));
    to[at] = IsCutOut(rule, draw, line, x) ? 0 : byte * shared.scale[c] + shared.bias[c];
  }
}

absl::StatusOr<Kernel> MakeAugment(const KernelSpec& spec) {
  const Shape& images = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const data::Augmenter augmenter, AugmenterOf(spec.attrs, images));
  AugmentPlan plan{.rule = augmenter.rule(), .rows = images[0], .gathers = spec.attrs.Bool("gathers")};
  const data::ImageRule& rule = plan.rule;
  if (augmenter.policy().normalise == data::ImagePolicy::Normalise::kPerPixel) {
    return absl::UnimplementedError("per-pixel means on GPUs: augment the images in the Prefetcher");
  }
  if (rule.channels > kMaxChannels) {
    return absl::UnimplementedError(absl::StrCat("images of ", rule.channels, " channels; on GPUs at most ",
                                                 kMaxChannels, ": augment them in the Prefetcher"));
  }
  for (int64_t c = 0; c < kMaxChannels; ++c) {
    const bool given = rule.per_channel && c < rule.channels;
    plan.mean[c] = given ? augmenter.policy().mean[c] : 0;
    plan.deviation[c] = given ? augmenter.policy().deviation[c] : 1;
  }
  const int64_t values = rule.pixels() * rule.channels;
  plan.by_channels = Divider(rule.channels, values);
  plan.by_width = Divider(rule.out_width, values);
  return Kernel{[plan, n = values == 0 ? 0 : spec.outputs[0].shape[0]](const KernelContext& at) {
    const auto* const bytes = at.input<uint8_t>(0);
    const auto* const positions = at.input<int64_t>(1);
    auto* const y = at.output<float>(0);
    return gpu::ForEachBlock(*at.stream, n, sizeof(AugmentShared),
                             [=] BELFRY_GPU(int64_t i, const gpu::Team& team, void* shared) {
                               AugmentImage(plan, bytes, positions, i, team, *static_cast<AugmentShared*>(shared), y);
                             });
  }};
}

}  // namespace

void AddImageGpuKernels(KernelTable& table) {
  table.AddKernels("AugmentImages", {{"GPU", DType::kFloat32, &MakeAugment}});
}

}  // namespace belfry::ops
