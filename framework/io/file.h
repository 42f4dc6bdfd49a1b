// Files, read at once or in pieces, and written whole.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace belfry::io {

// Errors of this folder name the path and the system's reason: NotFound if the file or its folder is not there,
// ResourceExhausted if the disk is full or a limit on the size of files is met, PermissionDenied if the file, the
// folder or the whole file system may not be written or read, else Unavailable.
absl::Status SystemError(absl::string_view path, absl::string_view what, int error);

// The bytes of `path`.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes the pieces, one after the other, beside `path`, flushes them to the disk, and renames the result to `path`: so
// a reader sees the former file or the whole new one, also after the machine has lost its power. After an error there
// is the former file, or the whole new one if only flushing the folder failed, and nothing is left beside it; after the
// process was killed a leftover may be (BaseOfLeftover).
absl::Status WriteFile(const std::string& path, absl::Span<const absl::string_view> pieces);
absl::Status WriteFile(const std::string& path, absl::string_view bytes);

// Makes `path` a symbolic link to `target`, likewise: a link that was there leads to the old target or to the new one.
absl::Status ReplaceLink(const std::string& path, const std::string& target);

// If `name` is what an interrupted write to a file called "<base>" leaves beside it, "<base>.<digits>.<digits>.tmp":
// that base. Else empty.
absl::string_view BaseOfLeftover(absl::string_view name);

// Removes a file or a link. Not an error: it is not there.
absl::Status RemoveFile(const std::string& path);

// A file that is open for reading. Movable; Read is thread-safe.
class InputFile {
 public:
  // Errors: also one that is a directory.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  // When it was opened.
  uint64_t size() const { return size_; }
  // Bytes [offset, offset + bytes). OutOfRange if the file ends before.
  absl::Status Read(uint64_t offset, void* to, uint64_t bytes) const;
  // What comes next, at most `bytes`, also of a pipe; returns how much, 0 at the end.
  absl::StatusOr<size_t> ReadOn(void* to, size_t bytes) const;

 private:
  InputFile(std::string path, int descriptor, uint64_t size);
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

}  // namespace belfry::io
