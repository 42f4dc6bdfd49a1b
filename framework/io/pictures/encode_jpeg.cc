#include <cstdio>
// Needs <cstdio> before it.
#include <jpeglib.h>

#include <csetjmp>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/io/pictures/picture.h"

namespace belfry::io {
namespace {

struct EncodingErrors {
  jpeg_error_mgr base;  // first, so that libjpeg's pointer to it is one to this
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void OnEncodingError(j_common_ptr common) {
  auto* const errors = reinterpret_cast<EncodingErrors*>(common->err);
  errors->base.format_message(common, errors->message);
  std::longjmp(errors->jump, 1);
}

// False after an error. The bytes are libjpeg's, to be freed unless there was one, after which they may be gone.
bool Encode(const Picture& picture, int quality, EncodingErrors& errors, unsigned char*& bytes, unsigned long& size) {
  jpeg_compress_struct jpeg;
  std::memset(&jpeg, 0, sizeof jpeg);
  jpeg.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = OnEncodingError;
  if (setjmp(errors.jump) != 0) {
    jpeg_destroy_compress(&jpeg);
    return false;
  }
  jpeg_create_compress(&jpeg);
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_height = static_cast<unsigned>(picture.height);
  jpeg.image_width = static_cast<unsigned>(picture.width);
  jpeg.input_components = picture.channels;
  jpeg.in_color_space = picture.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, quality, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = const_cast<uint8_t*>(picture.pixels.data()) +
                   static_cast<size_t>(jpeg.next_scanline) * picture.width * picture.channels;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  return true;
}

}  // namespace

absl::StatusOr<std::string> EncodeJpeg(const Picture& picture, int quality) {
  constexpr int64_t kMostPixels = 65500;
  if (picture.height < 1 || picture.width < 1 || picture.height > kMostPixels || picture.width > kMostPixels) {
    return absl::InvalidArgumentError(absl::StrCat("A JPEG cannot have ", picture.height, "x", picture.width,
                                                   " pixels; expected 1 to ", kMostPixels, " in each direction"));
  }
  EncodingErrors errors{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const bool encoded = Encode(picture, quality, errors, bytes, size);
  if (!encoded) return absl::InternalError(absl::StrCat("libjpeg cannot encode a picture: ", errors.message));
  std::string file(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);
  return file;
}

}  // namespace belfry::io
