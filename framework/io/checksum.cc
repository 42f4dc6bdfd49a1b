#include "framework/io/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_cat.h"

namespace belfry::io {

uint64_t Checksum(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

uint64_t SumOfChecksums(const void* data, size_t rows, size_t bytes, uint64_t first_seed) {
  const char* const begin = static_cast<const char*>(data);
  uint64_t sum = 0;
  for (size_t i = 0; i < rows; ++i) sum += XXH3_64bits_withSeed(begin + i * bytes, bytes, first_seed + i);
  return sum;
}

std::string ChecksumText(const void* data, size_t bytes) {
  return absl::StrCat(absl::Hex(Checksum(data, bytes), absl::kZeroPad16));
}

std::string DigestText(absl::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return absl::StrCat(absl::Hex(hash.high64, absl::kZeroPad16), absl::Hex(hash.low64, absl::kZeroPad16));
}

}  // namespace belfry::io
