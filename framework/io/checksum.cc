#include "framework/io/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_cat.h"

namespace belfry::io {

uint64_t Checksum(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

std::string ChecksumText(const void* data, size_t bytes) {
  return absl::StrCat(absl::Hex(Checksum(data, bytes), absl::kZeroPad16));
}

}  // namespace belfry::io
