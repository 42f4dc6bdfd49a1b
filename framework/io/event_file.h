// Files of records, as TFRecord and TensorBoard's event files are:
//
//   record = length (uint64)  masked CRC-32C of these 8 bytes (uint32)
//            bytes            masked CRC-32C of the bytes (uint32)
//
// all little-endian (tensorflow/core/lib/io/record_writer.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::io {

// `bytes` as one record.
std::string FrameRecord(absl::string_view bytes);

// Appends records to a file of its own. Each is handed to the system whole, with one write, so a killed program leaves
// at most one partial record, the last. Not thread-safe.
class RecordWriter {
 public:
  // Makes the file `path`, which must not exist. AlreadyExists; otherwise as file.h says.
  static absl::StatusOr<RecordWriter> Create(const std::string& path);
  ~RecordWriter();
  RecordWriter(RecordWriter&& other) noexcept;
  RecordWriter& operator=(RecordWriter&& other) noexcept;

  // Errors as file.h says: ResourceExhausted if the disk or a quota is full. Then nothing of the record stays in the
  // file, and the next Write may succeed; if not even that can be had, every later Write fails likewise.
  absl::Status Write(absl::string_view bytes);
  // Returns when everything written is on the disk: what a loss of power would take.
  absl::Status Sync();

  const std::string& path() const { return path_; }
  // Bytes in the file.
  uint64_t size() const { return size_; }

 private:
  RecordWriter(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  absl::Status broken_;  // why nothing can be written any more
};

// Goes through the records in `file`, the bytes of a whole file, which are borrowed.
class RecordReader {
 public:
  explicit RecordReader(absl::string_view file) : file_(file) {}

  // The next record, in place; nullopt after the last whole one. DataLoss, with the offset, if a checksum does not fit;
  // the reader then stays where it is.
  absl::StatusOr<std::optional<absl::string_view>> Next();
  // Where the next record begins. After the last one: bytes from here on are a partial record, whose writer was killed
  // or is still at it.
  size_t offset() const { return offset_; }
  bool truncated() const { return offset_ < file_.size(); }

 private:
  absl::string_view file_;
  size_t offset_ = 0;
};

}  // namespace belfry::io
