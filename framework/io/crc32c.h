// CRC-32C (Castagnoli): the checksum of RFC 3720, appendix B.4, which guards the records of event files.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace belfry::io {

// Of all `bytes`: polynomial 0x1EDC6F41, reflected, started from and finished with all ones. 0 for no bytes.
uint32_t Crc32c(absl::string_view bytes);

// As TFRecord files store it: rotated right by 15 bits plus 0xA282EAD8, so that a checksum of data that holds checksums
// is a good one.
uint32_t MaskedCrc32c(absl::string_view bytes);

}  // namespace belfry::io
