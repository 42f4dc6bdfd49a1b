// Checksums that detect damage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/io/file.h"

namespace belfry::io {

// XXH3, 64 bits, seed 0 (github.com/Cyan4973/xxHash), about as fast as memory can be read. No protection against
// forgery.
uint64_t Checksum(const void* data, size_t bytes);
// The sum, modulo 2^64, of the checksums of `rows` rows of `bytes` bytes each, row i with seed first_seed + i.
uint64_t SumOfChecksums(const void* data, size_t rows, size_t bytes, uint64_t first_seed);
// The checksum as 16 lower-case hexadecimal digits, most significant first.
std::string ChecksumText(const void* data, size_t bytes);

// XXH3, 128 bits, seed 0, as 32 lower-case hexadecimal digits, most significant first. For contents that must not be
// mistaken for each other by chance; no protection against forgery either.
std::string DigestText(absl::string_view bytes);
// The same digest of a file, which is read in pieces.
absl::StatusOr<std::string> FileDigest(const InputFile& file);

}  // namespace belfry::io
