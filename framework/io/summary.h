// What TensorBoard shows of one step: numbers, histograms and images, by tag.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/base/tensor.h"
#include "framework/io/histogram.h"

namespace belfry::io {

// Collects the values of a step, which SummaryWriter::Write then writes as one record. A tag's slashes group it:
// TensorBoard puts "losses/total" into the group "losses". A tag is UTF-8; bytes that are not become '?'. A value; not
// thread-safe.
class Summary {
 public:
  // Stored as float32; NaN and infinities too.
  void AddScalar(absl::string_view tag, double value);
  // Runs of empty buckets are stored as one. If there are values that are not finite, their number goes beside it as a
  // scalar, "<tag>/not_finite".
  void AddHistogram(absl::string_view tag, const Histogram& histogram);
  // The first `max_images` of `images` [N, H, W, C], or the one image [H, W, C]; C: 1 grey, 3 RGB, 4 RGBA; uint8 as it
  // is, floats scaled image by image as TensorFlow 1 does: without negative values such that the largest becomes 255,
  // else such that 0 becomes 128 and the value farthest from it 1 or 255. What is not finite becomes red, or white if
  // grey. Tags are "<tag>/image" if max_images is 1, else "<tag>/image/0" and so on. InvalidArgument, with the tag, for
  // another shape or dtype, or max_images below 1; then nothing is added.
  absl::Status AddImages(absl::string_view tag, const Tensor& images, int64_t max_images = 3);

  bool empty() const { return bytes_.empty(); }
  // A serialised Summary message (event.proto).
  const std::string& bytes() const { return bytes_; }

 private:
  // Messages that follow each other are one message with the values of all of them.
  std::string bytes_;
};

}  // namespace belfry::io
