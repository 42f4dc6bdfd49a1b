// Summaries of one step for TensorBoard: scalars, histograms and images, by tag.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/base/tensor.h"
#include "framework/io/histogram.h"

namespace belfry::io {

// Collects the values of one step, which SummaryWriter::Write writes as one record. Slashes in a tag form groups:
// TensorBoard shows "losses/total" in the group "losses". Tags are UTF-8; invalid bytes become '?'. A value type; not
// thread-safe.
class Summary {
 public:
  // Stored as float32; NaN and infinities too.
  void AddScalar(absl::string_view tag, double value);
  // Runs of empty buckets are stored as one. If some values are not finite, their number is added as the scalar
  // "<tag>/not_finite".
  void AddHistogram(absl::string_view tag, const Histogram& histogram);
  // Adds the first `max_images` of `images` [N, H, W, C], or the single image [H, W, C]; C: 1 grey, 3 RGB, 4 RGBA.
  // uint8 is stored as it is. Floats are scaled image by image as in TensorFlow 1: without negative values, so that the
  // largest becomes 255; otherwise so that 0 becomes 128 and the value farthest from it 1 or 255. Pixels with a
  // non-finite value become red, or white in a grey image. Tags are "<tag>/image" if max_images is 1, otherwise
  // "<tag>/image/0" and so on. InvalidArgument, with the tag, for another shape or dtype, or max_images below 1; then
  // nothing is added.
  absl::Status AddImages(absl::string_view tag, const Tensor& images, int64_t max_images = 3);

  bool empty() const { return bytes_.empty(); }
  // A serialised Summary message (event.proto).
  const std::string& bytes() const { return bytes_; }

 private:
  // A concatenation of messages is one message with the values of all of them.
  std::string bytes_;
};

}  // namespace belfry::io
