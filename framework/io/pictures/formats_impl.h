// The decoders behind DecodePicture. Internal.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/io/pictures/picture.h"

namespace belfry::io {

// jpeg.cc, png_decoder.cc. Sizes are as stored, before the orientation; so are the pixels.
absl::StatusOr<PictureHeader> ReadJpegHeader(absl::string_view bytes);
absl::StatusOr<Picture> DecodeJpeg(absl::string_view bytes, const DecodeOptions& options);
absl::StatusOr<PictureHeader> ReadPngHeader(absl::string_view bytes);
absl::StatusOr<Picture> DecodePng(absl::string_view bytes, const DecodeOptions& options);

// The grey of a colour, by Rec. 601.
inline uint8_t GreyOf(int red, int green, int blue) {
  return static_cast<uint8_t>((299 * red + 587 * green + 114 * blue + 500) / 1000);
}

// ResourceExhausted if a picture of this size is too large; InvalidArgument if it has no pixels.
absl::Status CheckPictureSize(int64_t height, int64_t width);

// The orientation that an EXIF segment states, which begins with "Exif\0\0"; 1 if it states no valid one.
int ExifOrientation(absl::string_view segment);

}  // namespace belfry::io
