// Encoding PNG images.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace belfry::io {

// Encodes `pixels` [height, width, channels], 8 bits each, as a PNG file; channels: 1 grey, 3 RGB, 4 RGBA.
// InvalidArgument for another number of channels, an image without pixels, or an extent above 1,000,000, libpng's
// limit.
absl::StatusOr<std::string> EncodePng(absl::Span<const uint8_t> pixels, int64_t height, int64_t width,
                                      int64_t channels);

}  // namespace belfry::io
