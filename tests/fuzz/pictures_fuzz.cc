// Input: a byte that says how to decode, and a file.
#include "framework/io/pictures/picture.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  fuzz::Input input(data, size);
  const uint8_t how = input.Byte();
  const absl::string_view bytes = input.Rest();
  const auto header = io::ReadPictureHeader(bytes);
  constexpr int64_t kMostPixels = 1 << 20;  // more only take long
  if (header.ok() && header->height * header->width > kMostPixels) return 0;
  const io::DecodeOptions options{.channels = (how & 1) == 0 ? 3 : 1, .shrink = 1 << (how >> 1 & 3)};
  const auto picture = io::DecodePicture(bytes, options);
  if (!picture.ok()) {
    BELFRY_CHECK(!picture.status().message().empty());
    return 0;
  }
  BELFRY_CHECK(header.ok() && picture->channels == options.channels);
  BELFRY_CHECK(static_cast<int64_t>(picture->pixels.size()) == picture->height * picture->width * picture->channels);
  if (options.shrink == 1) BELFRY_CHECK(picture->height == header->height && picture->width == header->width);
  return 0;
}
