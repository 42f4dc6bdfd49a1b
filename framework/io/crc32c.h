// CRC-32C (Castagnoli): the checksum of RFC 3720, appendix B.4, which guards the records of event files.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace belfry::io {

// The CRC-32C of `bytes`: polynomial 0x1EDC6F41, reflected, with an initial value and a final XOR of all ones. 0 for no
// bytes.
uint32_t Crc32c(absl::string_view bytes);

// The checksum as TFRecord files store it: rotated right by 15 bits, plus 0xA282EAD8. Masking keeps the CRC of data
// that contains CRCs a good check.
uint32_t MaskedCrc32c(absl::string_view bytes);

}  // namespace belfry::io
