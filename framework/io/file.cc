#include "framework/io/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"

namespace belfry::io {
namespace {

// Linux moves at most slightly more than this (2 GiB less a page) in one call.
constexpr uint64_t kMaxBytesAtOnce = uint64_t{1} << 30;
constexpr int kMaxLeftovers = 1000;
constexpr int kMaxLinks = 40;  // as Linux

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }
  // Returns false, with errno set, if earlier writes did not reach the file.
  bool Close() { return value_ < 0 || ::close(std::exchange(value_, -1)) == 0; }

 private:
  int value_;
};

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// The i-th candidate for the temporary file beside `path`. A leftover of an earlier process may occupy a name, so there
// are several.
std::string Beside(const std::string& path, int i) { return absl::StrCat(path, ".", getpid(), ".", i, ".tmp"); }

// Renaming would replace the device or the pipe itself, and /dev/stdout by a file.
bool IsWrittenInPlace(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) return true;
  return absl::StartsWith(path, "/dev/") && !absl::StartsWith(path, "/dev/shm/");
}

// "; 4096 bytes are free there", unless the path is that of a device.
std::string RoomBeside(absl::string_view path) {
  struct statvfs system {};
  if (IsWrittenInPlace(std::string(path)) || ::statvfs(FolderOf(std::string(path)).c_str(), &system) != 0) return "";
  const uint64_t free = static_cast<uint64_t>(system.f_bavail) * system.f_frsize;
  if (system.f_files > 0 && system.f_favail == 0) return "; no file may be added there: all inodes are in use";
  constexpr uint64_t kMuch = uint64_t{1} << 30;
  return absl::StrCat("; ", free, " bytes are free there", free > kMuch ? ", so a quota may have been reached" : "");
}

bool WriteAll(int descriptor, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), std::min<uint64_t>(bytes.size(), kMaxBytesAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(written);
  }
  return true;
}

bool SyncFolder(const std::string& path) {
  const Descriptor folder(::open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems cannot flush a folder, and need not.
  return folder.value() >= 0 && (::fsync(folder.value()) == 0 || errno == EINVAL || errno == ENOTSUP);
}

absl::Status RenameInto(const std::string& beside, const std::string& path) {
  if (::rename(beside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(beside.c_str());
    return SystemError(path, "cannot rename into place", error);
  }
  if (!SyncFolder(path)) return SystemError(path, "cannot flush its folder", errno);
  return absl::OkStatus();
}

}  // namespace

absl::Status SystemError(absl::string_view path, absl::string_view what, int error) {
  const std::string message = absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR: return absl::NotFoundError(message);
    case EMFILE:
      return absl::ResourceExhaustedError(absl::StrCat(message, "; raise the limit on open files (ulimit -n)"));
    case EFBIG:
      return absl::ResourceExhaustedError(absl::StrCat(message, "; raise the limit on file sizes (ulimit -f)"));
    case ENOSPC: return absl::ResourceExhaustedError(absl::StrCat(message, RoomBeside(path)));
    case ENFILE:
    case ENOMEM:
    case EDQUOT: return absl::ResourceExhaustedError(message);
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(message);
    case ELOOP: return absl::InvalidArgumentError(message);
    default: return absl::UnavailableError(message);
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  const auto too_large = [&](uint64_t bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": has ", bytes, " bytes, more than the limit of ", max_bytes));
  };
  if (file.size() > max_bytes) return too_large(file.size());
  std::string bytes;
  size_t used = 0, room = file.size();
  // One byte more than the expected size, so that usually the second read already reports the end of the file.
  while (true) {
    bytes.resize(std::max(used + 4096, room + 1));
    ASSIGN_OR_RETURN(const size_t got, file.ReadOn(bytes.data() + used, bytes.size() - used));
    if (got == 0) break;
    used += got;
    if (used > max_bytes) return too_large(used);  // it has grown, or had no size, as files in /proc
    if (used == bytes.size()) room = 2 * used;
  }
  bytes.resize(used);
  return bytes;
}

namespace {

// The path that symbolic links lead to from `path`, as far as they go.
absl::StatusOr<std::string> FollowLinks(std::string path) {
  std::error_code error;
  for (int i = 0; i < kMaxLinks; ++i) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) return path;  // no link, or nothing there
    path = (std::filesystem::path(path).parent_path() / target).string();
  }
  return SystemError(path, "cannot write", ELOOP);
}

absl::Status WriteInPlace(const std::string& path, absl::Span<const absl::string_view> pieces) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  bool written = file.value() >= 0;
  for (const absl::string_view piece : pieces) written = written && WriteAll(file.value(), piece);
  written = written && file.Close();
  return written ? absl::OkStatus() : SystemError(path, "cannot write", errno);
}

}  // namespace

absl::Status WriteFile(const std::string& path, absl::Span<const absl::string_view> pieces) {
  if (IsWrittenInPlace(path)) return WriteInPlace(path, pieces);
  ASSIGN_OR_RETURN(const std::string target, FollowLinks(path));
  std::string beside;
  int descriptor = -1;
  for (int i = 0; descriptor < 0; ++i) {
    beside = Beside(target, i);
    descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && (errno != EEXIST || i == kMaxLeftovers)) return SystemError(beside, "cannot create", errno);
  }
  Descriptor file(descriptor);
  bool written = true;
  for (const absl::string_view piece : pieces) written = written && WriteAll(file.value(), piece);
  written = written && ::fsync(file.value()) == 0 && file.Close();
  if (!written) {
    const int error = errno;
    file.Close();  // so that its room counts as free
    ::unlink(beside.c_str());
    uint64_t bytes = 0;
    for (const absl::string_view piece : pieces) bytes += piece.size();
    return SystemError(target, absl::StrCat("cannot write ", bytes, " bytes"), error);
  }
  return RenameInto(beside, target);
}

absl::Status WriteFile(const std::string& path, absl::string_view bytes) {
  return WriteFile(path, absl::MakeConstSpan(&bytes, 1));
}

absl::Status ReplaceLink(const std::string& path, const std::string& target) {
  for (int i = 0;; ++i) {
    const std::string beside = Beside(path, i);
    if (::symlink(target.c_str(), beside.c_str()) == 0) return RenameInto(beside, path);
    if (errno != EEXIST || i == kMaxLeftovers) return SystemError(beside, "cannot create a symbolic link", errno);
  }
}

absl::string_view BaseOfLeftover(absl::string_view name) {
  if (!absl::ConsumeSuffix(&name, ".tmp")) return "";
  for (int i = 0; i < 2; ++i) {
    const size_t dot = name.rfind('.');
    if (dot == name.npos || dot + 1 == name.size()) return "";
    const absl::string_view digits = name.substr(dot + 1);
    if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit)) return "";
    name = name.substr(0, dot);
  }
  return name;
}

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  std::vector<std::string> names;
  while (open != nullptr) {
    errno = 0;
    const dirent* const entry = ::readdir(open.get());
    if (entry == nullptr && errno == 0) return names;
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return SystemError(folder, "cannot list the folder", errno);
}

absl::Status RemoveFile(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return SystemError(path, "cannot remove", errno);
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  // Opening a pipe would wait for a writer; for files the flag means nothing.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return SystemError(path, "cannot open", errno);
  InputFile file(path, descriptor, 0);
  struct stat about;
  if (::fstat(descriptor, &about) != 0) return SystemError(path, "cannot read", errno);
  if (!S_ISREG(about.st_mode)) {
    const char* kind = S_ISDIR(about.st_mode) ? "a folder" : S_ISFIFO(about.st_mode) ? "a pipe" : "a device";
    return absl::InvalidArgumentError(absl::StrCat(path, ": is ", kind, ", not a file"));
  }
  file.size_ = about.st_size;
  return file;
}

InputFile::InputFile(std::string path, int descriptor, uint64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::StatusOr<size_t> InputFile::ReadOn(void* to, size_t bytes) const {
  while (true) {
    const ssize_t got = ::read(descriptor_, to, std::min<uint64_t>(bytes, kMaxBytesAtOnce));
    if (got >= 0) return got;
    if (errno != EINTR) return SystemError(path_, "cannot read", errno);
  }
}

absl::StatusOr<std::shared_ptr<std::byte>> InputFile::Map() const {
  const auto bytes = static_cast<size_t>(size_);
  if (bytes == 0) return std::shared_ptr<std::byte>();
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor_, 0);
  if (memory == MAP_FAILED) return SystemError(path_, "cannot map", errno);
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                    [bytes](std::byte* mapped) { munmap(mapped, bytes); });
}

absl::Status InputFile::Read(uint64_t offset, void* to, uint64_t bytes) const {
  uint64_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(descriptor_, static_cast<char*>(to) + done, std::min(bytes - done, kMaxBytesAtOnce),
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path_, "cannot read", errno);
    if (got == 0) {
      return absl::OutOfRangeError(absl::StrCat(path_, ": ends at byte ", offset + done, ", but bytes up to ",
                                                offset + bytes, " are needed; the file was cut short"));
    }
    done += got;
  }
  return absl::OkStatus();
}

}  // namespace belfry::io
