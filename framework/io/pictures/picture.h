// Decoding pictures, PNG and JPEG, and encoding JPEGs; png.h encodes PNGs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::io {

// Pixels [height, width, channels], 8 bits each, upright, in memory of somebody else.
struct Pixels {
  int64_t height = 0, width = 0;
  int channels = 3;  // 1: grey, 3: RGB
  const uint8_t* values = nullptr;
};
// The same with its memory.
struct Picture {
  int64_t height = 0, width = 0;
  int channels = 3;
  std::vector<uint8_t> pixels;

  operator Pixels() const { return {height, width, channels, pixels.data()}; }  // NOLINT: a picture is its pixels
};

// The properties of a picture that a file states before the pixels.
struct PictureHeader {
  enum class Format : uint8_t { kJpeg, kPng } format = Format::kJpeg;
  int64_t height = 0, width = 0;  // upright
  int orientation = 1;            // of a JPEG, EXIF's: 1 to 8, by which stored pixels become upright ones
};

// Pictures of more pixels, or longer ones, are refused, so that a small file cannot demand any amount of memory: it is
// about 4 bytes a pixel, and up to 10 for a progressive JPEG or an interlaced PNG.
inline constexpr int64_t kMaxPicturePixels = 100'000'000, kMaxPictureExtent = 65'535;

// Recognises the format by the first bytes, whatever the file is called. InvalidArgument: neither PNG nor JPEG, or a
// header that is damaged or incomplete. Unimplemented: a kind of JPEG that libjpeg lacks, such as arithmetic coding
// where it is not built in. ResourceExhausted: larger than allowed. Safe for arbitrary bytes. Thread-safe.
absl::StatusOr<PictureHeader> ReadPictureHeader(absl::string_view bytes);

struct DecodeOptions {
  int channels = 3;  // 1: grey, 3: RGB
  // The picture may be made smaller by 1, 2, 4 or 8 in both directions while it is decoded, which JPEGs make faster; a
  // size is rounded up. PNGs are always whole.
  int shrink = 1;
  uint8_t background = 255;  // grey level that transparent pixels lie on
  // Returns the numbers that a PNG stores instead of colours: the indices of a palette, and grey levels unscaled if
  // they have fewer than 8 bits. For masks; requires one channel.
  bool numbers = false;
};

// Decodes a picture: grey, RGB, palettes, alpha, 16 bits (the upper 8), interlaced; JPEGs of grey, YCbCr, RGB, CMYK and
// YCCK, progressive too. Colour profiles are ignored. The grey of a colour is 0.299 red + 0.587 green + 0.114 blue.
// Errors: those of ReadPictureHeader; DataLoss: the file ends early, or is damaged where its format shows it;
// InvalidArgument: numbers are wanted of a PNG with alpha, 16 bits, or colours that are in no palette. Safe for
// arbitrary bytes. Thread-safe.
absl::StatusOr<Picture> DecodePicture(absl::string_view bytes, const DecodeOptions& options = {});
// The same of a file whose header, as ReadPictureHeader returns it, is known.
absl::StatusOr<Picture> DecodePicture(absl::string_view bytes, const PictureHeader& header,
                                      const DecodeOptions& options = {});

// A picture as a JPEG, of quality 1 to 100. InvalidArgument: no pixels, or more than 65,500 in a direction.
absl::StatusOr<std::string> EncodeJpeg(const Picture& picture, int quality);

}  // namespace belfry::io
