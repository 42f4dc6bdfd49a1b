#include "tests/framework/io/encode_pictures.h"

#include <cstdio>
// Needs <cstdio> before it.
#include <jpeglib.h>

#include <png.h>

#include <cstdlib>

#include "framework/base/check.h"

namespace belfry {
namespace {

// An EXIF segment with one entry.
std::string Exif(int orientation, bool big_endian) {
  std::string segment("Exif\0\0", 6);
  segment += big_endian ? "MM" : "II";
  const auto put = [&](uint32_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      segment += static_cast<char>(number >> 8 * (big_endian ? bytes - 1 - i : i));
    }
  };
  put(42, 2);
  put(8, 4);       // where the directory begins
  put(1, 2);       // its entries
  put(0x0112, 2);  // orientation
  put(3, 2);       // 16 bits
  put(1, 4);
  put(static_cast<uint32_t>(orientation), 2);
  put(0, 2);
  put(0, 4);
  return segment;
}

}  // namespace

std::string EncodeAnyJpeg(const std::vector<uint8_t>& pixels, int height, int width, const JpegOptions& options) {
  jpeg_error_mgr errors;
  jpeg_compress_struct jpeg;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_height = static_cast<unsigned>(height);
  jpeg.image_width = static_cast<unsigned>(width);
  jpeg.input_components = options.channels;
  jpeg.in_color_space = options.channels == 1 ? JCS_GRAYSCALE : options.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, options.quality, TRUE);
  // Chroma as fine as luma, so that colours come back nearly as they were.
  jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
  if (options.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  if (options.orientation > 0) {
    const std::string exif = Exif(options.orientation, options.big_endian);
    jpeg_write_marker(&jpeg, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                      static_cast<unsigned>(exif.size()));
  }
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = const_cast<uint8_t*>(pixels.data()) + size_t{jpeg.next_scanline} * width * options.channels;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string file(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  jpeg_destroy_compress(&jpeg);
  return file;
}

std::string EncodeAnyPng(const std::vector<uint8_t>& pixels, int height, int width, const PngOptions& options) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto write = [](png_structp to, png_bytep bytes, size_t size) {
    static_cast<std::string*>(png_get_io_ptr(to))->append(reinterpret_cast<char*>(bytes), size);
  };
  png_set_write_fn(png, &file, write, nullptr);
  constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGBA};
  png_set_IHDR(png, info, static_cast<unsigned>(width), static_cast<unsigned>(height), options.bits,
               options.palette ? PNG_COLOR_TYPE_PALETTE : kTypes[options.channels - 1],
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> colours(options.colours.size() / 3);
  for (size_t i = 0; i < colours.size(); ++i) {
    colours[i] = {options.colours[3 * i], options.colours[3 * i + 1], options.colours[3 * i + 2]};
  }
  if (options.palette) png_set_PLTE(png, info, colours.data(), static_cast<int>(colours.size()));
  if (!options.transparency.empty()) {
    png_set_tRNS(png, info, const_cast<uint8_t*>(options.transparency.data()),
                 static_cast<int>(options.transparency.size()), nullptr);
  }
  png_write_info(png, info);
  if (options.bits < 8) png_set_packing(png);
  const int channels = options.palette ? 1 : options.channels;
  const size_t row = static_cast<size_t>(width) * channels * (options.bits == 16 ? 2 : 1);
  std::vector<uint8_t> wide;
  for (const uint8_t value : pixels) {
    wide.push_back(value);
    if (options.bits == 16) wide.push_back(0);
  }
  BELFRY_CHECK(wide.size() == row * height);
  std::vector<png_bytep> rows;
  for (int y = 0; y < height; ++y) rows.push_back(wide.data() + y * row);
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace belfry
