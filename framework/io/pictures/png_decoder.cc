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
    // Texts and profiles, which could be large, are not read.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
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

  // Asks for 8 bits, grey or RGB as `channels` says, and alpha.
  bool Start(int channels) {
    if (setjmp(jump_) != 0) return false;
    png_set_expand(png_);  // palettes, fewer than 8 bits, and transparent colours
    png_set_strip_16(png_);
    const bool grey = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) == 0;
    if (channels == 3 && grey) png_set_gray_to_rgb(png_);
    if (channels == 1 && !grey) png_set_rgb_to_gray_fixed(png_, PNG_ERROR_ACTION_NONE, PNG_RGB_TO_GRAY_DEFAULT, -1);
    png_set_add_alpha(png_, 0xff, PNG_FILLER_AFTER);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return png_get_channels(png_, info_) == channels + 1;
  }
  bool ReadRows(uint8_t** rows) {
    if (setjmp(jump_) != 0) return false;
    png_read_image(png_, rows);
    return true;
  }
  // Of the header if nothing has been started.
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

// Lays pixels with alpha, the last of their channels, on a background.
Picture OnBackground(const std::vector<uint8_t>& pixels, int64_t height, int64_t width, int channels, int background) {
  Picture picture{height, width, channels, std::vector<uint8_t>(pixels.size() / (channels + 1) * channels)};
  const size_t count = pixels.size() / (channels + 1);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* const from = pixels.data() + i * (channels + 1);
    const int alpha = from[channels];
    for (int c = 0; c < channels; ++c) {
      picture.pixels[i * channels + c] =
          static_cast<uint8_t>((from[c] * alpha + background * (255 - alpha) + 127) / 255);
    }
  }
  return picture;
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
  if (!decoder.Start(options.channels)) return decoder.Failed(/*in_pixels=*/true);
  const size_t row = static_cast<size_t>(width) * (options.channels + 1);
  std::vector<uint8_t> pixels(row * height);
  std::vector<uint8_t*> rows;
  for (int64_t y = 0; y < height; ++y) rows.push_back(pixels.data() + y * row);
  if (!decoder.ReadRows(rows.data())) return decoder.Failed(/*in_pixels=*/true);
  return OnBackground(pixels, height, width, options.channels, options.background);
}

}  // namespace belfry::io
