// Checksums that find damage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace belfry::io {

// XXH3, 64 bits, seed 0 (github.com/Cyan4973/xxHash): as fast as memory is read. Not against forgers.
uint64_t Checksum(const void* data, size_t bytes);
// The same as 16 hexadecimal digits, lower case, most significant first.
std::string ChecksumText(const void* data, size_t bytes);

}  // namespace belfry::io
