#include "framework/io/checksum.h"

#include <algorithm>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry::io {
namespace {

std::string Text(const XXH128_hash_t& digest) {
  return absl::StrCat(absl::Hex(digest.high64, absl::kZeroPad16), absl::Hex(digest.low64, absl::kZeroPad16));
}

}  // namespace

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

std::string DigestText(absl::string_view bytes) { return Text(XXH3_128bits(bytes.data(), bytes.size())); }

absl::StatusOr<std::string> FileDigest(const InputFile& file) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  std::vector<char> piece(std::min(kPiece, file.size()));
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_128bits_reset(&state);
  for (uint64_t at = 0; at < file.size(); at += kPiece) {
    const uint64_t bytes = std::min(kPiece, file.size() - at);
    RETURN_IF_ERROR(file.Read(at, piece.data(), bytes));
    XXH3_128bits_update(&state, piece.data(), bytes);
  }
  return Text(XXH3_128bits_digest(&state));
}

}  // namespace belfry::io
