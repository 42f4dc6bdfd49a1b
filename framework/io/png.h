// Images as PNG files.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace belfry::io {

// The PNG file of `pixels` [height, width, channels], 8 bits each; channels: 1 grey, 3 RGB, 4 RGBA. InvalidArgument for
// other numbers of channels, for an image without pixels and for extents above 1,000,000, libpng's limit.
absl::StatusOr<std::string> EncodePng(absl::Span<const uint8_t> pixels, int64_t height, int64_t width,
                                      int64_t channels);

}  // namespace belfry::io
