#include "framework/device/cuda/cubin_file.h"

#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/device/cuda/nvrtc.h"
#include "framework/device/cuda/nvrtc_prelude.h"

namespace belfry {
namespace {

namespace fs = std::filesystem;

// A file has the checksum of the machine code, then that.
uint64_t Checksum(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace

CubinFile::CubinFile(const std::string& folder, absl::string_view source, int major, int minor) {
  if (folder.empty()) return;
  const std::string key = absl::StrCat("sm_", major, minor, " ", NvrtcOptions(), NvrtcPrelude(), source);
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  path_ = fs::path(folder) / "kernels" / absl::StrFormat("%016x%016x.cubin", hash.high64, hash.low64);
}

std::string CubinFile::Read() const {
  std::error_code error;
  const auto size = fs::file_size(path_, error);
  if (error) return "";
  std::string bytes(size, '\0');
  std::ifstream file(path_, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) return "";
  uint64_t checksum = 0;
  if (bytes.size() <= sizeof(checksum)) return "";
  std::copy_n(bytes.data(), sizeof(checksum), reinterpret_cast<char*>(&checksum));
  std::string cubin = bytes.substr(sizeof(checksum));
  return Checksum(cubin) == checksum ? cubin : "";
}

// Writes a temporary file and renames it, so that no other process or thread reads half of it.
bool CubinFile::Write(const std::string& cubin) const {
  if (path_.empty()) return false;
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  const fs::path beside =
      path_.string() + absl::StrCat(".", getpid(), ".", absl::Hex(reinterpret_cast<uintptr_t>(this)), ".tmp");
  const uint64_t checksum = Checksum(cubin);
  std::ofstream file(beside, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  file.write(cubin.data(), static_cast<std::streamsize>(cubin.size()));
  file.close();
  if (file) fs::rename(beside, path_, error);
  const bool written = file && !error;
  if (!written) fs::remove(beside, error);
  return written;
}

}  // namespace belfry
