#include <cstdio>
// Needs <cstdio> before it.
#include <jpeglib.h>

#include <jerror.h>

#include <csetjmp>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/pictures/formats_impl.h"

namespace belfry::io {
namespace {

// libjpeg reports an error by a function that must not return: it jumps out of the decoder, over frames that have
// nothing to destroy.
struct ErrorHandler {
  jpeg_error_mgr base;  // first, so that libjpeg's pointer to it is one to this
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  int code;
  bool damaged;
};

ErrorHandler& HandlerOf(j_common_ptr common) { return *reinterpret_cast<ErrorHandler*>(common->err); }

[[noreturn]] void OnError(j_common_ptr common) {
  ErrorHandler& handler = HandlerOf(common);
  handler.code = handler.base.msg_code;
  handler.base.format_message(common, handler.message);
  std::longjmp(handler.jump, 1);
}

// Warnings about pixels that are missing or wrong count; others, such as bytes between segments, do not.
void OnMessage(j_common_ptr common, int level) {
  switch (common->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_MUST_RESYNC:
      if (level < 0) HandlerOf(common).damaged = true;
      break;
    default: break;
  }
}

// A progressive JPEG may repeat its scans without end, each of which takes the time of the whole picture.
void OnProgress(j_common_ptr common) {
  constexpr int kMaxScans = 500;
  if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number > kMaxScans) ERREXIT(common, JERR_TOO_LITTLE_DATA);
}

// A decoder of bytes in memory.
struct JpegDecoder {
  jpeg_decompress_struct jpeg;
  ErrorHandler handler;
  jpeg_progress_mgr progress;

  JpegDecoder() {
    std::memset(&jpeg, 0, sizeof jpeg);
    jpeg.err = jpeg_std_error(&handler.base);
    handler.base.error_exit = OnError;
    handler.base.emit_message = OnMessage;
    std::memset(&progress, 0, sizeof progress);
    progress.progress_monitor = OnProgress;
    handler.message[0] = '\0';
    handler.code = 0;
    handler.damaged = false;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&jpeg); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
};

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kMaxExif = 0xffff;

// False after an error.
bool ReadHeader(JpegDecoder& decoder, absl::string_view bytes) {
  if (setjmp(decoder.handler.jump) != 0) return false;
  jpeg_create_decompress(&decoder.jpeg);
  decoder.jpeg.progress = &decoder.progress;
  jpeg_mem_src(&decoder.jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_save_markers(&decoder.jpeg, kExifMarker, kMaxExif);
  return jpeg_read_header(&decoder.jpeg, TRUE) == JPEG_HEADER_OK;
}

bool Start(JpegDecoder& decoder, const DecodeOptions& options) {
  if (setjmp(decoder.handler.jump) != 0) return false;
  jpeg_decompress_struct& jpeg = decoder.jpeg;
  const bool inks = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  jpeg.out_color_space = inks ? JCS_CMYK : options.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg.scale_num = 1;
  jpeg.scale_denom = static_cast<unsigned>(options.shrink);
  return jpeg_start_decompress(&jpeg) != FALSE;
}

bool ReadRows(JpegDecoder& decoder, uint8_t* pixels, size_t row_bytes) {
  if (setjmp(decoder.handler.jump) != 0) return false;
  while (decoder.jpeg.output_scanline < decoder.jpeg.output_height) {
    JSAMPROW row = pixels + decoder.jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&decoder.jpeg, &row, 1);
  }
  return true;
}

absl::Status Failed(const JpegDecoder& decoder, bool in_pixels) {
  const std::string message = absl::StrCat("the JPEG cannot be decoded: ", decoder.handler.message);
  switch (decoder.handler.code) {
    case JERR_OUT_OF_MEMORY: return absl::ResourceExhaustedError(message);
    case JERR_ARITH_NOTIMPL:
    case JERR_SOF_UNSUPPORTED:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_BAD_PRECISION: return absl::UnimplementedError(message);
    default: return in_pixels ? absl::DataLossError(message) : absl::InvalidArgumentError(message);
  }
}

// As Adobe's programs write them, which nearly all such files come from: 255 is no ink.
Picture FromInks(const Picture& inks, int channels) {
  Picture picture{inks.height, inks.width, channels, {}};
  const size_t count = inks.pixels.size() / 4;
  picture.pixels.resize(count * channels);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* const ink = inks.pixels.data() + 4 * i;
    int rgb[3];
    for (int c = 0; c < 3; ++c) rgb[c] = (ink[c] * ink[3] + 127) / 255;
    if (channels == 3) {
      for (int c = 0; c < 3; ++c) picture.pixels[3 * i + c] = static_cast<uint8_t>(rgb[c]);
    } else {
      picture.pixels[i] = GreyOf(rgb[0], rgb[1], rgb[2]);
    }
  }
  return picture;
}

}  // namespace

absl::StatusOr<PictureHeader> ReadJpegHeader(absl::string_view bytes) {
  JpegDecoder decoder;
  if (!ReadHeader(decoder, bytes)) return Failed(decoder, /*in_pixels=*/false);
  PictureHeader header{PictureHeader::Format::kJpeg, decoder.jpeg.image_height, decoder.jpeg.image_width, 1};
  for (auto* marker = decoder.jpeg.marker_list; marker != nullptr; marker = marker->next) {
    if (marker->marker != kExifMarker || header.orientation != 1) continue;
    header.orientation = ExifOrientation({reinterpret_cast<const char*>(marker->data), marker->data_length});
  }
  return header;
}

absl::StatusOr<Picture> DecodeJpeg(absl::string_view bytes, const DecodeOptions& options) {
  JpegDecoder decoder;
  if (!ReadHeader(decoder, bytes)) return Failed(decoder, /*in_pixels=*/false);
  RETURN_IF_ERROR(CheckPictureSize(decoder.jpeg.image_height, decoder.jpeg.image_width));
  if (!Start(decoder, options)) return Failed(decoder, /*in_pixels=*/true);
  Picture picture{decoder.jpeg.output_height, decoder.jpeg.output_width, decoder.jpeg.output_components, {}};
  const size_t row = static_cast<size_t>(picture.width) * picture.channels;
  picture.pixels.resize(row * picture.height);
  if (!ReadRows(decoder, picture.pixels.data(), row)) return Failed(decoder, /*in_pixels=*/true);
  if (decoder.handler.damaged) return absl::DataLossError("the JPEG ends early, or some of it is damaged");
  return picture.channels == 4 ? FromInks(picture, options.channels) : picture;
}

}  // namespace belfry::io
