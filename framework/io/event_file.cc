#include "framework/io/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/crc32c.h"
#include "framework/io/file.h"

namespace belfry::io {
namespace {

constexpr size_t kLengthBytes = 8, kChecksumBytes = 4, kHeaderBytes = kLengthBytes + kChecksumBytes;

template <class T>
void AppendLittleEndian(T value, std::string* out) {
  for (size_t i = 0; i < sizeof(T); ++i) out->push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

template <class T>
T LittleEndian(absl::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= T{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

bool ChecksumFits(absl::string_view bytes, absl::string_view checksum) {
  return MaskedCrc32c(bytes) == LittleEndian<uint32_t>(checksum);
}

template <class F>
auto Retry(F call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

std::string FrameRecord(absl::string_view bytes) {
  std::string record;
  record.reserve(kHeaderBytes + bytes.size() + kChecksumBytes);
  AppendLittleEndian(uint64_t{bytes.size()}, &record);
  AppendLittleEndian(MaskedCrc32c(record), &record);
  record.append(bytes.data(), bytes.size());
  AppendLittleEndian(MaskedCrc32c(bytes), &record);
  return record;
}

absl::StatusOr<RecordWriter> RecordWriter::Create(const std::string& path) {
  const int descriptor =
      Retry([&] { return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666); });
  if (descriptor < 0 && errno == EEXIST) return absl::AlreadyExistsError(absl::StrCat(path, ": already exists"));
  if (descriptor < 0) return SystemError(path, "cannot create", errno);
  return RecordWriter(path, descriptor);
}

RecordWriter::~RecordWriter() {
  if (descriptor_ >= 0) close(descriptor_);
}

RecordWriter::RecordWriter(RecordWriter&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      broken_(std::move(other.broken_)) {}

RecordWriter& RecordWriter::operator=(RecordWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(broken_, other.broken_);
  return *this;
}

absl::Status RecordWriter::Write(absl::string_view bytes) {
  RETURN_IF_ERROR(broken_);
  const std::string record = FrameRecord(bytes);
  size_t written = 0;
  while (written < record.size()) {
    const ssize_t count = Retry([&] { return write(descriptor_, record.data() + written, record.size() - written); });
    if (count <= 0) {
      const absl::Status status = SystemError(path_, "cannot write", count < 0 ? errno : ENOSPC);
      if (written > 0 && Retry([&] { return ftruncate(descriptor_, static_cast<off_t>(size_)); }) != 0) {
        broken_ = status;
      }
      return status;
    }
    written += static_cast<size_t>(count);
  }
  size_ += record.size();
  return absl::OkStatus();
}

absl::Status RecordWriter::Sync() {
  if (Retry([&] { return fdatasync(descriptor_); }) == 0) return absl::OkStatus();
  return SystemError(path_, "cannot sync to disk", errno);
}

absl::StatusOr<std::optional<absl::string_view>> RecordReader::Next() {
  const absl::string_view rest = file_.substr(offset_);
  if (rest.size() < kHeaderBytes) return std::nullopt;
  const absl::string_view length_bytes = rest.substr(0, kLengthBytes);
  if (!ChecksumFits(length_bytes, rest.substr(kLengthBytes))) {
    return absl::DataLossError(
        absl::StrCat("The length of the record at byte ", offset_, " does not match its checksum"));
  }
  const uint64_t length = LittleEndian<uint64_t>(length_bytes);
  if (rest.size() < kHeaderBytes + kChecksumBytes || length > rest.size() - kHeaderBytes - kChecksumBytes) {
    return std::nullopt;
  }
  const absl::string_view bytes = rest.substr(kHeaderBytes, length);
  if (!ChecksumFits(bytes, rest.substr(kHeaderBytes + length))) {
    return absl::DataLossError(
        absl::StrCat("The ", length, " bytes of the record at byte ", offset_, " do not match their checksum"));
  }
  offset_ += kHeaderBytes + length + kChecksumBytes;
  return bytes;
}

}  // namespace belfry::io
