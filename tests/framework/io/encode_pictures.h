// Files of pictures for tests of decoders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace belfry {

struct JpegOptions {
  int channels = 3;  // 1: grey, 3: RGB, 4: CMYK as Adobe's programs store it, 255 for no ink
  int quality = 95;
  bool progressive = false;
  int orientation = 0;      // in an EXIF segment; 0: none
  bool big_endian = false;  // the segment
};
// `pixels` [height, width, channels].
std::string EncodeAnyJpeg(const std::vector<uint8_t>& pixels, int height, int width, const JpegOptions& options = {});

struct PngOptions {
  int channels = 3;  // 1: grey, 2: grey and alpha, 3: RGB, 4: RGBA
  int bits = 8;  // 16: `pixels` are the upper bytes, the lower ones are 0; 1, 2, 4: the lower bits of pixels, packed
  bool palette = false;  // `pixels` [height, width] are indices into `colours`, RGB
  std::vector<uint8_t> colours = {};
  std::vector<uint8_t> transparency = {};  // of the first colours
  bool interlaced = false;
};
std::string EncodeAnyPng(const std::vector<uint8_t>& pixels, int height, int width, const PngOptions& options = {});

}  // namespace belfry
