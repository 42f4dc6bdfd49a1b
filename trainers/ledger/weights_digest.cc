#include "trainers/ledger/weights_digest.h"

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/checksum.h"
#include "framework/io/file.h"

namespace belfry::trainers {
namespace {

std::string LineOf(DType dtype, const Shape& shape, absl::string_view checksum) {
  return absl::StrCat(DTypeName(dtype), " ", shape.ToString(), " ", checksum);
}

}  // namespace

TensorLines LinesOf(absl::Span<const io::NamedTensor> tensors) {
  TensorLines lines;
  for (const auto& [name, value] : tensors) {
    lines[name] = LineOf(value.dtype(), value.shape(), io::ChecksumText(value.raw(), value.bytes()));
  }
  return lines;
}

TensorLines LinesOf(absl::Span<const io::TensorInfo> tensors) {
  TensorLines lines;
  for (const io::TensorInfo& info : tensors) {
    lines[info.name] = info.dtype.has_value() ? LineOf(*info.dtype, info.shape, info.checksum) : info.type;
  }
  return lines;
}

std::string WeightsDigest(const TensorLines& lines) {
  std::string text;
  for (const auto& [name, line] : lines) absl::StrAppend(&text, name, "\n", line, "\n");
  return io::DigestText(text);
}

absl::StatusOr<std::string> HeaderDigest(const std::string& path) {
  constexpr size_t kLengthBytes = 8;
  ASSIGN_OR_RETURN(const io::InputFile file, io::InputFile::Open(path));
  std::string bytes(kLengthBytes, '\0');
  RETURN_IF_ERROR(file.Read(0, bytes.data(), bytes.size()));
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  if (length > io::kMaxHeaderBytes || length > file.size() - kLengthBytes) {
    return absl::DataLossError(absl::StrCat(path, ": the header has an impossible length, ", length));
  }
  bytes.resize(kLengthBytes + length);
  RETURN_IF_ERROR(file.Read(kLengthBytes, bytes.data() + kLengthBytes, length));
  return io::DigestText(bytes);
}

}  // namespace belfry::trainers
