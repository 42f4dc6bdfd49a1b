#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "framework/io/pictures/formats_impl.h"

namespace belfry::io {
namespace {

// Numbers of a TIFF structure, which states its byte order.
class TiffReader {
 public:
  TiffReader(absl::string_view bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  // The number of `size` bytes at `at`; 0 past the end.
  uint32_t At(size_t at, size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return 0;
    uint32_t number = 0;
    for (size_t i = 0; i < size; ++i) {
      const auto byte = static_cast<uint8_t>(bytes_[at + (big_endian_ ? i : size - 1 - i)]);
      number = number << 8 | byte;
    }
    return number;
  }

 private:
  const absl::string_view bytes_;
  const bool big_endian_;
};

}  // namespace

// CIPA DC-008, "Exchangeable image file format": a TIFF header, then a directory of entries of 12 bytes: tag, type,
// count, value.
int ExifOrientation(absl::string_view segment) {
  constexpr uint32_t kOrientation = 0x0112, kShort = 3;
  if (!absl::ConsumePrefix(&segment, absl::string_view("Exif\0\0", 6))) return 1;
  const bool big_endian = absl::StartsWith(segment, "MM");
  if (!big_endian && !absl::StartsWith(segment, "II")) return 1;
  const TiffReader tiff(segment, big_endian);
  const size_t directory = tiff.At(4, 4);
  const uint32_t entries = tiff.At(directory, 2);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + size_t{12} * i;
    if (tiff.At(entry, 2) != kOrientation || tiff.At(entry + 2, 2) != kShort) continue;
    const uint32_t value = tiff.At(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace belfry::io
