// Files: read whole or in pieces, and written atomically.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace belfry::io {

// An error of this folder, with the path and the system's reason: NotFound if the file or its folder does not exist;
// ResourceExhausted if the disk is full or a limit on open files or on file sizes is reached; PermissionDenied if the
// file, the folder or the file system forbids it; InvalidArgument for links that lead to themselves; otherwise
// Unavailable. `error` is an errno.
absl::Status SystemError(absl::string_view path, absl::string_view what, int error);

// Limits for files that are read whole, since a wrong path may lead to a file of any size: of names and options, and of
// data. A reader that expects less says so.
inline constexpr uint64_t kMaxNoteBytes = uint64_t{1} << 20, kMaxDataBytes = uint64_t{1} << 30;

// The contents of `path`, a regular file: InvalidArgument for a folder, a pipe or a device, which may never end;
// ResourceExhausted for a file of more than `max_bytes`, of which nothing is read.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes = kMaxDataBytes);

// Writes the pieces, one after the other, to a temporary file beside `path`, flushes it to the disk and renames it to
// `path`, so that a reader sees either the old file or the whole new one, even after a power failure. After an error
// the old file is still there (or the new one, if only flushing the folder failed) and the temporary file is gone; a
// killed process may leave it behind (BaseOfLeftover). A symbolic link is followed, even to a file that does not exist
// yet: it stays, and the file that it leads to is replaced. A device, a pipe or a socket, and any path in /dev (but not
// in /dev/shm), is written in place instead.
absl::Status WriteFile(const std::string& path, absl::Span<const absl::string_view> pieces);
absl::Status WriteFile(const std::string& path, absl::string_view bytes);

// Makes `path` a symbolic link to `target`, atomically too: an existing link points to the old target or to the new
// one, never nowhere.
absl::Status ReplaceLink(const std::string& path, const std::string& target);

// If `name` is a temporary file that an interrupted write to "<base>" left behind, "<base>.<digits>.<digits>.tmp",
// returns that base; otherwise "".
absl::string_view BaseOfLeftover(absl::string_view name);

// The names of what is in `folder`, in no order. For std::filesystem::directory_iterator, which ends the program if it
// runs out of memory.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder);

// Removes a file or a link. Not an error if it does not exist.
absl::Status RemoveFile(const std::string& path);

// A file open for reading. Movable; Read is thread-safe, ReadOn is not.
class InputFile {
 public:
  // InvalidArgument for what is not a regular file.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  // Size in bytes when the file was opened.
  uint64_t size() const { return size_; }
  // Reads bytes [offset, offset + bytes). OutOfRange if the file ends before that.
  absl::Status Read(uint64_t offset, void* to, uint64_t bytes) const;
  // Reads up to `bytes` from the current position. Returns the number of bytes read, 0 at the end.
  absl::StatusOr<size_t> ReadOn(void* to, size_t bytes) const;
  // All of the file's bytes as memory, aligned to a page, which may outlive this object. Writes to it are not seen by
  // the file. Whoever cuts the file short meanwhile ends the process when it reads there; WriteFile replaces files, so
  // it does no harm. Null for an empty file.
  absl::StatusOr<std::shared_ptr<std::byte>> Map() const;

 private:
  InputFile(std::string path, int descriptor, uint64_t size);
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

}  // namespace belfry::io
