// Files of records, in the format of TFRecord and of TensorBoard's event files:
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

// `bytes` framed as one record.
std::string FrameRecord(absl::string_view bytes);

// Appends records to a file that it creates. Each record is passed to the system in one write, so a killed program
// leaves at most one partial record, the last. Not thread-safe.
class RecordWriter {
 public:
  // Creates `path`; AlreadyExists if it exists, other errors as in file.h.
  static absl::StatusOr<RecordWriter> Create(const std::string& path);
  ~RecordWriter();
  RecordWriter(RecordWriter&& other) noexcept;
  RecordWriter& operator=(RecordWriter&& other) noexcept;

  // Errors as in file.h: ResourceExhausted if the disk or a quota is full. After an error the file is truncated to its
  // last whole record, and the next Write may succeed; if the file cannot be truncated, every later Write returns this
  // error.
  absl::Status Write(absl::string_view bytes);
  // Returns once everything written is on the disk and safe from a power failure.
  absl::Status Sync();

  const std::string& path() const { return path_; }
  // Size of the file in bytes.
  uint64_t size() const { return size_; }

 private:
  RecordWriter(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  absl::Status broken_;  // not OK once the file cannot be written any more
};

// Iterates over the records in `file`, the bytes of a whole file, which must outlive the reader.
class RecordReader {
 public:
  explicit RecordReader(absl::string_view file) : file_(file) {}

  // The next record, as a view into `file`; nullopt after the last whole one. DataLoss, with the offset, if a checksum
  // does not match; the reader then stays where it is.
  absl::StatusOr<std::optional<absl::string_view>> Next();
  // Offset of the next record. After the last one, any bytes from here on are a partial record, whose writer was killed
  // or is still writing it.
  size_t offset() const { return offset_; }
  bool truncated() const { return offset_ < file_.size(); }

 private:
  absl::string_view file_;
  size_t offset_ = 0;
};

}  // namespace belfry::io
