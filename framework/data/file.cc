#include "framework/data/file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace belfry::data {
namespace {

struct Close {
  void operator()(FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<FILE, Close>;

absl::Status SystemError(const std::string& path, absl::string_view what, int error) {
  const std::string message = absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return SystemError(path, "cannot read", EISDIR);
  File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return SystemError(path, "cannot open", errno);
  std::string bytes;
  const uintmax_t size = std::filesystem::file_size(path, error);
  size_t used = 0, room = error ? 0 : size;
  // One byte of room beyond the expected size shows the end of the file in the first read.
  while (true) {
    bytes.resize(std::max(used + 4096, room + 1));
    used += std::fread(bytes.data() + used, 1, bytes.size() - used, file.get());
    if (used < bytes.size()) break;
    room = 2 * used;
  }
  if (std::ferror(file.get())) return SystemError(path, "cannot read", errno);
  bytes.resize(used);
  return bytes;
}

absl::Status WriteFile(const std::string& path, absl::string_view bytes) {
  const std::string beside = absl::StrCat(path, ".", getpid(), ".tmp");
  File file(std::fopen(beside.c_str(), "wb"));
  if (file == nullptr) return SystemError(beside, "cannot create", errno);
  const bool written =
      std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size() && std::fflush(file.get()) == 0;
  const int write_error = errno;
  file.reset();
  if (!written) {
    std::remove(beside.c_str());
    return SystemError(path, "cannot write", write_error);
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) {
    const int rename_error = errno;
    std::remove(beside.c_str());
    return SystemError(path, "cannot rename into place", rename_error);
  }
  return absl::OkStatus();
}

}  // namespace belfry::data
