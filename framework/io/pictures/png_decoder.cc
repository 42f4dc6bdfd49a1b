#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/pictures/formats_impl.h"

namespace belfry::io {
namespace {

// libpng reports an error by a function that must not return: it jumps out of the decoder, over frames that have
// nothing to destroy.
class PngDecoder {
 public:
  explicit PngDecoder(absl::string_view bytes) : left_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    if (png_ == nullptr) return;
    info_ = png_create_info_struct(png_);
    png_set_read_fn(png_, this, Read);
    // Texts, profiles and the like, which could be large, are passed over: all but what pixels need.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // CheckPictureSize limits the product
    png_set_chunk_cache_max(png_, kMaxChunks);
    png_set_chunk_malloc_max(png_, kMaxChunkBytes);
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  bool made() const { return png_ != nullptr && info_ != nullptr; }

  // False after an error.
  bool ReadHeader() {
    if (setjmp(jump_) != 0) return false;
    png_read_info(png_, info_);
    return true;
  }
  int64_t height() const { return png_get_image_height(png_, info_); }
  int64_t width() const { return png_get_image_width(png_, info_); }

  // False if the picture has alpha, 16 bits, or colours that are in no palette.
  bool has_only_numbers() const {
    const int type = png_get_color_type(png_, info_);
    return type == PNG_COLOR_TYPE_PALETTE || (type == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png_, info_) <= 8);
  }
  bool interlaced() const { return png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE; }
  int channels() const { return png_get_channels(png_, info_); }

  // Asks for bytes: the numbers that are stored, or grey or RGB as the picture is, and alpha.
  bool Start(bool numbers) {
    if (setjmp(jump_) != 0) return false;
    if (numbers) {
      png_set_packing(png_);
    } else {
      png_set_expand(png_);  // palettes, fewer than 8 bits, and transparent colours
      png_set_strip_16(png_);
      png_set_add_alpha(png_, 0xff, PNG_FILLER_AFTER);
    }
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  bool ReadRow(uint8_t* row) {
    if (setjmp(jump_) != 0) return false;
    png_read_row(png_, row, nullptr);
    return true;
  }
  bool ReadRows(uint8_t** rows) {
    if (setjmp(jump_) != 0) return false;
    png_read_image(png_, rows);
    return true;
  }
  // The error of the last call that returned false: DataLoss if it was reading pixels, else InvalidArgument.
  absl::Status Failed(bool in_pixels) const {
    const std::string message = absl::StrCat("the PNG cannot be decoded: ", message_);
    return in_pixels ? absl::DataLossError(message) : absl::InvalidArgumentError(message);
  }

 private:
  static constexpr unsigned kMaxChunks = 128;
  static constexpr png_alloc_size_t kMaxChunkBytes = 8'000'000;

  [[noreturn]] static void OnError(png_structp png, png_const_charp message) {
    auto* const decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::strncpy(decoder->message_, message, sizeof decoder->message_ - 1);
    std::longjmp(decoder->jump_, 1);
  }
  static void OnWarning(png_structp, png_const_charp) {}
  static void Read(png_structp png, png_bytep to, size_t count) {
    auto* const decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > decoder->left_.size()) png_error(png, "the file ends early");
    std::memcpy(to, decoder->left_.data(), count);
    decoder->left_.remove_prefix(count);
  }

  absl::string_view left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_;
  char message_[128] = "";
};

constexpr absl::string_view kNoMemory = "no memory for a decoder of PNGs";

// Writes `width` pixels as `options` say. Those of `row` have 1, 2 or 4 channels: numbers, grey with alpha, or RGB with
// alpha.
void Convert(const uint8_t* row, int64_t width, int from_channels, const DecodeOptions& options, uint8_t* to) {
  for (int64_t x = 0; x < width; ++x, row += from_channels) {
    if (from_channels == 1) {
      *to++ = row[0];
      continue;
    }
    const int colours = from_channels - 1, alpha = row[colours];
    int value[3];
    for (int c = 0; c < colours; ++c) value[c] = (row[c] * alpha + options.background * (255 - alpha) + 127) / 255;
    if (options.channels == colours) {
      for (int c = 0; c < colours; ++c) *to++ = static_cast<uint8_t>(value[c]);
    } else if (options.channels == 1) {
      *to++ = GreyOf(value[0], value[1], value[2]);
    } else {
      for (int c = 0; c < 3; ++c) *to++ = static_cast<uint8_t>(value[0]);
    }
  }
}

}  // namespace

absl::StatusOr<PictureHeader> ReadPngHeader(absl::string_view bytes) {
  PngDecoder decoder(bytes);
  if (!decoder.made()) return absl::ResourceExhaustedError(kNoMemory);
  if (!decoder.ReadHeader()) return decoder.Failed(/*in_pixels=*/false);
  return PictureHeader{PictureHeader::Format::kPng, decoder.height(), decoder.width(), 1};
}

absl::StatusOr<Picture> DecodePng(absl::string_view bytes, const DecodeOptions& options) {
  PngDecoder decoder(bytes);
  if (!decoder.made()) return absl::ResourceExhaustedError(kNoMemory);
  if (!decoder.ReadHeader()) return decoder.Failed(/*in_pixels=*/false);
  const int64_t height = decoder.height(), width = decoder.width();
  RETURN_IF_ERROR(CheckPictureSize(height, width));
  if (options.numbers && !decoder.has_only_numbers()) {
    return absl::InvalidArgumentError("a PNG with colours, alpha or 16 bits is no mask; expected a palette or grey");
  }
  if (!decoder.Start(options.numbers)) return decoder.Failed(/*in_pixels=*/true);
  const int channels = decoder.channels();
  const size_t row = static_cast<size_t>(width) * channels, to_row = static_cast<size_t>(width) * options.channels;
  Picture picture{height, width, options.channels, std::vector<uint8_t>(to_row * height)};
  if (!decoder.interlaced()) {
    std::vector<uint8_t> pixels(row);
    for (int64_t y = 0; y < height; ++y) {
      if (!decoder.ReadRow(pixels.data())) return decoder.Failed(/*in_pixels=*/true);
      Convert(pixels.data(), width, channels, options, picture.pixels.data() + y * to_row);
    }
    return picture;
  }
  std::vector<uint8_t> pixels(row * height);
  std::vector<uint8_t*> rows;
  rows.reserve(height);
  for (int64_t y = 0; y < height; ++y) rows.push_back(pixels.data() + y * row);
  if (!decoder.ReadRows(rows.data())) return decoder.Failed(/*in_pixels=*/true);
  for (int64_t y = 0; y < height; ++y) {
    Convert(rows[y], width, channels, options, picture.pixels.data() + y * to_row);
  }
  return picture;
}

}  // namespace belfry::io
