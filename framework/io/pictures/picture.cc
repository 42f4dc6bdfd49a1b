#include "framework/io/pictures/picture.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/io/pictures/formats_impl.h"

namespace belfry::io {
namespace {

constexpr absl::string_view kPngSignature("\x89PNG\r\n\x1a\n", 8), kJpegSignature("\xff\xd8\xff", 3);

// Orientations from 5 on exchange rows and columns.
bool Turned(int orientation) { return orientation >= 5; }

// The stored pixel that is at (y, x) of an upright picture.
//
//   1: as stored   2: mirrored left to right   3: turned by 180 degrees   4: mirrored top to bottom
//   5: transposed  6: turned right             7: transposed, the other way   8: turned left
struct StoredAt {
  int orientation;
  int64_t height, width;  // as stored

  std::pair<int64_t, int64_t> operator()(int64_t y, int64_t x) const {
    switch (orientation) {
      case 2: return {y, width - 1 - x};
      case 3: return {height - 1 - y, width - 1 - x};
      case 4: return {height - 1 - y, x};
      case 5: return {x, y};
      case 6: return {height - 1 - x, y};
      case 7: return {height - 1 - x, width - 1 - y};
      case 8: return {x, width - 1 - y};
      default: return {y, x};
    }
  }
};

Picture Upright(Picture stored, int orientation) {
  if (orientation == 1) return stored;
  Picture upright{stored.height, stored.width, stored.channels, std::vector<uint8_t>(stored.pixels.size())};
  if (Turned(orientation)) std::swap(upright.height, upright.width);
  const StoredAt at{orientation, stored.height, stored.width};
  uint8_t* to = upright.pixels.data();
  for (int64_t y = 0; y < upright.height; ++y) {
    for (int64_t x = 0; x < upright.width; ++x, to += stored.channels) {
      const auto [row, column] = at(y, x);
      std::copy_n(stored.pixels.data() + (row * stored.width + column) * stored.channels, stored.channels, to);
    }
  }
  return upright;
}

}  // namespace

absl::Status CheckPictureSize(int64_t height, int64_t width) {
  if (height < 1 || width < 1) return absl::InvalidArgumentError("the picture has no pixels");
  if (std::max(height, width) <= kMaxPictureExtent && width <= kMaxPicturePixels / height) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the picture has ", height, "x", width, " pixels; at most ",
                                                   kMaxPicturePixels, " are allowed, and ", kMaxPictureExtent,
                                                   " in each direction"));
}

absl::StatusOr<PictureHeader> ReadPictureHeader(absl::string_view bytes) {
  const bool png = absl::StartsWith(bytes, kPngSignature);
  if (!png && !absl::StartsWith(bytes, kJpegSignature)) {
    return absl::InvalidArgumentError(bytes.empty() ? "the file is empty" : "the file is neither a PNG nor a JPEG");
  }
  ASSIGN_OR_RETURN(PictureHeader header, png ? ReadPngHeader(bytes) : ReadJpegHeader(bytes));
  RETURN_IF_ERROR(CheckPictureSize(header.height, header.width));
  if (Turned(header.orientation)) std::swap(header.height, header.width);
  return header;
}

absl::StatusOr<Picture> DecodePicture(absl::string_view bytes, const DecodeOptions& options) {
  ASSIGN_OR_RETURN(const PictureHeader header, ReadPictureHeader(bytes));
  return DecodePicture(bytes, header, options);
}

absl::StatusOr<Picture> DecodePicture(absl::string_view bytes, const PictureHeader& header,
                                      const DecodeOptions& options) {
  BELFRY_CHECK(options.channels == 1 || options.channels == 3);
  BELFRY_CHECK(options.channels == 1 || !options.numbers);
  BELFRY_CHECK(options.shrink == 1 || options.shrink == 2 || options.shrink == 4 || options.shrink == 8);
  ASSIGN_OR_RETURN(Picture stored, header.format == PictureHeader::Format::kPng ? DecodePng(bytes, options)
                                                                                : DecodeJpeg(bytes, options));
  return Upright(std::move(stored), header.orientation);
}

}  // namespace belfry::io
