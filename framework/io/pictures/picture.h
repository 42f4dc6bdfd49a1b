// Decoding pictures, PNG and JPEG, and encoding JPEGs; png.h encodes PNGs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::io {

// Pixels [height, width, channels], 8 bits each, upright.
struct Picture {
  int64_t height = 0, width = 0;
  int channels = 3;  // 1: grey, 3: RGB
  std::vector<uint8_t> pixels;
};

// What a file says of its picture before its pixels.
struct PictureHeader {
  enum class Format : uint8_t { kJpeg, kPng } format = Format::kJpeg;
  int64_t height = 0, width = 0;  // upright
  int orientation = 1;            // EXIF's: 1 to 8, by which stored pixels become upright ones
};

// Pictures of more pixels are refused, so that a small file cannot demand any amount of memory.
inline constexpr int64_t kMaxPicturePixels = int64_t{1} << 27;

// Recognises the format by the first bytes, whatever the file is called. InvalidArgument: neither PNG nor JPEG, or a
// header that is damaged or incomplete. Unimplemented: a kind of JPEG that libjpeg lacks, such as arithmetic coding
// where it is not built in. ResourceExhausted: more than kMaxPicturePixels. Safe for arbitrary bytes. Thread-safe.
absl::StatusOr<PictureHeader> ReadPictureHeader(absl::string_view bytes);

struct DecodeOptions {
  int channels = 3;  // 1: grey, 3: RGB
  // The picture may be made smaller by 1, 2, 4 or 8 in both directions while it is decoded, which JPEGs make faster; a
  // size is rounded up. PNGs are always whole.
  int shrink = 1;
  uint8_t background = 255;  // grey level that transparent pixels lie on
};

// Decodes a picture: grey, RGB, palettes, alpha, 16 bits (the upper 8), interlaced; JPEGs of grey, YCbCr, RGB, CMYK and
// YCCK, progressive too. Colour profiles are ignored. Errors: those of ReadPictureHeader; DataLoss: the file ends
// early, or its pixels are damaged. Safe for arbitrary bytes. Thread-safe.
absl::StatusOr<Picture> DecodePicture(absl::string_view bytes, const DecodeOptions& options = {});

// A picture as a JPEG, of quality 1 to 100. InvalidArgument: no pixels, or more than 65,500 in a direction.
absl::StatusOr<std::string> EncodeJpeg(const Picture& picture, int quality);

}  // namespace belfry::io
