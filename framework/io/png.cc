#include "framework/io/png.h"

#include <png.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"

namespace belfry::io {

absl::StatusOr<std::string> EncodePng(absl::Span<const uint8_t> pixels, int64_t height, int64_t width,
                                      int64_t channels) {
  constexpr int64_t kMaxPixels = 1'000'000;
  if (channels != 1 && channels != 3 && channels != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("An image has ", channels, " channels; expected 1 (grey), 3 (RGB) or 4 (RGBA)"));
  }
  if (height < 1 || width < 1 || height > kMaxPixels || width > kMaxPixels) {
    return absl::InvalidArgumentError(
        absl::StrCat("An image has ", height, "x", width, " pixels; expected 1 to ", kMaxPixels, " in each dimension"));
  }
  BELFRY_CHECK(static_cast<int64_t>(pixels.size()) == height * width * channels);

  png_image image;
  std::memset(&image, 0, sizeof(image));
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  const auto row_stride = static_cast<png_int_32>(width * channels);
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = file.size();
  if (png_image_write_to_memory(&image, file.data(), &size, 0, pixels.data(), row_stride, nullptr) == 0) {
    return absl::InternalError(
        absl::StrCat("libpng cannot encode an image of ", height, "x", width, "x", channels, ": ", image.message));
  }
  file.resize(size);
  return file;
}

}  // namespace belfry::io
