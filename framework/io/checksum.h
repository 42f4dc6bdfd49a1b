// Checksums that detect damage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace belfry::io {

// XXH3, 64 bits, seed 0 (github.com/Cyan4973/xxHash), about as fast as memory can be read. No protection against
// forgery.
uint64_t Checksum(const void* data, size_t bytes);
// The checksum as 16 lower-case hexadecimal digits, most significant first.
std::string ChecksumText(const void* data, size_t bytes);

}  // namespace belfry::io
