#include "framework/io/summary.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/event.pb.h"
#include "framework/io/png.h"
#include "framework/io/utf8.h"

namespace belfry::io {
namespace {

// `tag` with '?' for each byte that is not valid UTF-8; readers reject a file with invalid UTF-8.
std::string ValidTag(absl::string_view tag) {
  std::string valid;
  while (!tag.empty()) {
    const size_t size = FirstUtf8(tag).size;
    valid.append(size == 0 ? "?" : std::string(tag.substr(0, size)));
    tag.remove_prefix(std::max<size_t>(size, 1));
  }
  return valid;
}

// In an arena, which runs no destructors: those of messages that ran out of memory free what was never allocated.
proto::Summary& NewSummary(google::protobuf::Arena& arena) {
  return *google::protobuf::Arena::CreateMessage<proto::Summary>(&arena);
}

void Encode(const Histogram& histogram, proto::HistogramProto* out) {
  out->set_min(histogram.min());
  out->set_max(histogram.max());
  out->set_num(static_cast<double>(histogram.count()));
  out->set_sum(histogram.sum());
  out->set_sum_squares(histogram.sum_squares());
  const absl::Span<const double> limits = Histogram::Limits();
  const absl::Span<const int64_t> buckets = histogram.buckets();
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i] == 0) {
      while (i + 1 < buckets.size() && buckets[i + 1] == 0) ++i;
    }
    out->add_bucket_limit(limits[i]);
    out->add_bucket(static_cast<double>(buckets[i]));
  }
}

// One image [pixels, channels] scaled to bytes.
std::vector<uint8_t> ToBytes(absl::Span<const double> values, int64_t channels) {
  constexpr double kNearZero = 1e-6;
  constexpr uint8_t kRed[] = {255, 0, 0, 255};
  double min = std::numeric_limits<double>::infinity(), max = -min;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    min = std::min(min, value);
    max = std::max(max, value);
  }
  const bool negative = min < 0;
  const double farthest = negative ? std::max(std::fabs(min), std::fabs(max)) : max;
  const double offset = negative ? 128 : 0;
  const double scale = farthest < kNearZero ? 0 : (negative ? 127 : 255) / farthest;

  std::vector<uint8_t> bytes(values.size());
  for (size_t pixel = 0; pixel < values.size(); pixel += channels) {
    const absl::Span<const double> from = values.subspan(pixel, channels);
    uint8_t* to = bytes.data() + pixel;
    if (std::all_of(from.begin(), from.end(), [](double value) { return std::isfinite(value); })) {
      std::transform(from.begin(), from.end(), to, [&](double value) {
        return static_cast<uint8_t>(std::lround(std::clamp(value * scale + offset, 0.0, 255.0)));
      });
    } else {
      std::copy_n(kRed, channels, to);
    }
  }
  return bytes;
}

absl::Status CheckImages(absl::string_view tag, const Tensor& images, int64_t max_images) {
  const int rank = images.shape().rank();
  if (rank != 3 && rank != 4) {
    return absl::InvalidArgumentError(absl::StrCat("Images '", tag, "' have shape ", images.shape().ToString(),
                                                   "; expected [N, H, W, C] or [H, W, C]"));
  }
  if (images.dtype() != DType::kUInt8 && !IsFloating(images.dtype())) {
    return absl::InvalidArgumentError(
        absl::StrCat("Images '", tag, "' have dtype ", DTypeName(images.dtype()), "; expected uint8 or floats"));
  }
  if (max_images < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_images of images '", tag, "' is ", max_images, "; expected at least 1"));
  }
  return absl::OkStatus();
}

}  // namespace

void Summary::AddScalar(absl::string_view tag, double value) {
  google::protobuf::Arena arena;
  proto::Summary& summary = NewSummary(arena);
  proto::Summary::Value* entry = summary.add_value();
  entry->set_tag(ValidTag(tag));
  entry->set_simple_value(static_cast<float>(value));
  summary.AppendToString(&bytes_);
}

void Summary::AddHistogram(absl::string_view tag, const Histogram& histogram) {
  google::protobuf::Arena arena;
  proto::Summary& summary = NewSummary(arena);
  proto::Summary::Value* entry = summary.add_value();
  entry->set_tag(ValidTag(tag));
  Encode(histogram, entry->mutable_histo());
  summary.AppendToString(&bytes_);
  if (histogram.not_finite() > 0) {
    AddScalar(absl::StrCat(tag, "/not_finite"), static_cast<double>(histogram.not_finite()));
  }
}

absl::Status Summary::AddImages(absl::string_view tag, const Tensor& images, int64_t max_images) {
  RETURN_IF_ERROR(CheckImages(tag, images, max_images));
  const Shape& shape = images.shape();
  const int64_t height = shape[-3], width = shape[-2], channels = shape[-1];
  const int64_t count = std::min(max_images, shape.rank() == 4 ? shape[0] : 1);
  const int64_t size = height * width * channels;

  google::protobuf::Arena arena;
  proto::Summary& summary = NewSummary(arena);
  std::vector<double> values;
  if (images.dtype() != DType::kUInt8) values = images.ToDoubles(count * size);
  for (int64_t i = 0; i < count; ++i) {
    std::vector<uint8_t> scaled;
    absl::Span<const uint8_t> pixels;
    if (images.dtype() == DType::kUInt8) {
      pixels = images.span<uint8_t>().subspan(i * size, size);
    } else {
      scaled = ToBytes(absl::MakeConstSpan(values).subspan(i * size, size), channels);
      pixels = scaled;
    }
    absl::StatusOr<std::string> png = EncodePng(pixels, height, width, channels);
    if (!png.ok()) {
      return absl::Status(png.status().code(), absl::StrCat("Images '", tag, "': ", png.status().message()));
    }
    proto::Summary::Value* entry = summary.add_value();
    entry->set_tag(ValidTag(max_images == 1 ? absl::StrCat(tag, "/image") : absl::StrCat(tag, "/image/", i)));
    proto::Summary::Image* image = entry->mutable_image();
    image->set_height(static_cast<int32_t>(height));
    image->set_width(static_cast<int32_t>(width));
    image->set_colorspace(static_cast<int32_t>(channels));
    image->set_encoded_image_string(*std::move(png));
  }
  summary.AppendToString(&bytes_);
  return absl::OkStatus();
}

}  // namespace belfry::io
