#include "framework/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>
#include <utility>

#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/alignment.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/io/checksum.h"
#include "framework/io/safetensors_format_impl.h"

namespace belfry::io {
namespace {

static_assert(std::endian::native == std::endian::little);

// `text` as a JSON string; InvalidArgument if it is not UTF-8.
absl::StatusOr<std::string> Quote(absl::string_view text) {
  const std::string value(text);
  std::string quoted = nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // Invalid UTF-8 was replaced, so it does not parse back to the same text.
  if (nlohmann::json::parse(quoted, nullptr, /*allow_exceptions=*/false) == value) return quoted;
  return absl::InvalidArgumentError(absl::StrCat("the name or text ", quoted, " is not valid UTF-8"));
}

const ElementType& TypeOf(DType dtype) {
  return *std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                       [&](const ElementType& type) { return type.dtype == dtype; });
}

absl::Status CheckTensors(const std::vector<const NamedTensor*>& sorted, const Metadata& metadata) {
  std::vector<absl::string_view> names;
  for (const NamedTensor* tensor : sorted) {
    names.push_back(tensor->name);
    if (tensor->name == kMetadataKey) {
      return absl::InvalidArgumentError(absl::StrCat("a tensor cannot be named ", kMetadataKey));
    }
    if (tensor->value.bytes() > 0 && tensor->value.raw() == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor->name, "' has a shape but no data"));
    }
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return absl::InvalidArgumentError(absl::StrCat("two tensors are named '", *twice, "'"));
  }
  for (const auto& entry : metadata) {
    if (absl::StartsWith(entry.first, kChecksumPrefix)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the metadata key '", entry.first, "' is reserved for checksums; choose another"));
    }
  }
  return absl::OkStatus();
}

// The first 8 + n bytes of the file: length, JSON, padding. The header's own checksum is computed over them with zeros
// in its place, then filled in.
absl::StatusOr<std::string> MakeHeader(const std::vector<const NamedTensor*>& sorted, const Metadata& metadata) {
  RETURN_IF_ERROR(CheckTensors(sorted, metadata));
  Metadata all = metadata;
  all.emplace(kVersionKey, kVersion);
  std::string entries;
  uint64_t begin = 0;
  for (const NamedTensor* tensor : sorted) {
    const Tensor& value = tensor->value;
    all.emplace(absl::StrCat(kTensorChecksumPrefix, tensor->name), ChecksumText(value.raw(), value.bytes()));
    ASSIGN_OR_RETURN(const std::string name, Quote(tensor->name));
    absl::StrAppend(&entries, ",", name, R"(:{"dtype":")", TypeOf(value.dtype()).name, R"(","shape":[)",
                    absl::StrJoin(value.shape().dims(), ","), R"(],"data_offsets":[)", begin, ",",
                    begin + value.bytes(), "]}");
    begin += value.bytes();
  }
  std::string header(kLengthBytes, '\0');
  absl::StrAppend(&header, kHeaderStart, kNoChecksum, "\"");
  for (const auto& entry : all) {
    ASSIGN_OR_RETURN(const std::string key, Quote(entry.first));
    ASSIGN_OR_RETURN(const std::string value, Quote(entry.second));
    absl::StrAppend(&header, ",", key, ":", value);
  }
  absl::StrAppend(&header, "}", entries, "}");
  // In a mapped file, tensors are aligned like any others.
  header.append(AlignUp(header.size()) - header.size(), ' ');
  const uint64_t length = header.size() - kLengthBytes;
  if (length > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the header would have ", length,
                                                   " bytes, but readers accept at most ", kMaxHeaderBytes,
                                                   "; write fewer tensors or less metadata"));
  }
  for (size_t i = 0; i < kLengthBytes; ++i) header[i] = static_cast<char>(length >> (8 * i));
  header.replace(kLengthBytes + kHeaderStart.size(), kNoChecksum.size(), ChecksumText(header.data(), header.size()));
  return header;
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, absl::Span<const NamedTensor> tensors,
                              const Metadata& metadata) {
  std::vector<const NamedTensor*> sorted;
  for (const NamedTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const NamedTensor* a, const NamedTensor* b) {
    // Those of whole cache lines first, so that they are all aligned; then by the size of elements, which the format
    // wants aligned.
    const bool a_rest = a->value.bytes() % kAlignment != 0, b_rest = b->value.bytes() % kAlignment != 0;
    const size_t a_bytes = SizeOf(a->value.dtype()), b_bytes = SizeOf(b->value.dtype());
    return std::tie(a_rest, b_bytes, a->name) < std::tie(b_rest, a_bytes, b->name);
  });
  const absl::StatusOr<std::string> header = MakeHeader(sorted, metadata);
  if (!header.ok()) {
    return absl::Status(header.status().code(), absl::StrCat(path, ": cannot write: ", header.status().message()));
  }
  std::vector<absl::string_view> pieces = {*header};
  for (const NamedTensor* tensor : sorted) {
    pieces.emplace_back(static_cast<const char*>(tensor->value.raw()), tensor->value.bytes());
  }
  return WriteFile(path, pieces);
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  std::string bytes(std::min<uint64_t>(file.size(), kLengthBytes), '\0');
  RETURN_IF_ERROR(file.Read(0, bytes.data(), bytes.size()));
  uint64_t length = 0;
  for (size_t i = 0; i < bytes.size(); ++i) length |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  // An impossible length is left for the parser to report.
  if (length <= kMaxHeaderBytes && length <= file.size() - bytes.size()) {
    const size_t begin = bytes.size();
    bytes.resize(begin + length);
    RETURN_IF_ERROR(file.Read(begin, bytes.data() + begin, length));
  }
  ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(path, bytes, file.size()));
  return SafetensorsFile(std::move(file), std::move(header));
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Map(const std::string& path) {
  ASSIGN_OR_RETURN(SafetensorsFile file, Open(path));
  ASSIGN_OR_RETURN(file.mapped_, file.file_.Map());
  return file;
}

absl::StatusOr<Tensor> SafetensorsFile::Elements(const TensorInfo& info) const {
  const uint64_t at = header_.data + info.begin;
  if (mapped_ != nullptr && at % kAlignment == 0) {
    RETURN_IF_ERROR(Shape::Make(info.shape.dims()).status());
    return Tensor::Over({mapped_, mapped_.get() + at}, *info.dtype, info.shape);
  }
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(*info.dtype, info.shape));
  RETURN_IF_ERROR(file_.Read(at, tensor.raw(), tensor.bytes()));
  return tensor;
}

const TensorInfo* SafetensorsFile::Find(absl::string_view name) const {
  for (const TensorInfo& info : header_.tensors) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

absl::StatusOr<Tensor> SafetensorsFile::Read(const TensorInfo& info) const {
  const auto named = [&](auto... what) { return absl::StrCat(path(), ": tensor '", info.name, "' ", what...); };
  if (!info.dtype) {
    return absl::UnimplementedError(named("has elements of type ", info.type, ", which Belfry does not support"));
  }
  absl::StatusOr<Tensor> tensor = Elements(info);
  if (!tensor.ok()) return absl::Status(tensor.status().code(), named("cannot be read: ", tensor.status().message()));
  if (!info.checksum.empty()) {
    const std::string found = ChecksumText(tensor->raw(), tensor->bytes());
    if (found != info.checksum) {
      return absl::DataLossError(named("is damaged: the checksum of its bytes is ", found, ", but the file says ",
                                       info.checksum, "; use another file, or write this one again"));
    }
  }
  if (*info.dtype == DType::kBool) {
    const auto* bytes = static_cast<const uint8_t*>(static_cast<const void*>(tensor->raw()));
    if (std::any_of(bytes, bytes + tensor->bytes(), [](uint8_t byte) { return byte > 1; })) {
      return absl::DataLossError(named("is BOOL and has a byte that is neither 0 nor 1"));
    }
  }
  return tensor;
}

absl::StatusOr<std::vector<NamedTensor>> SafetensorsFile::ReadAll() const {
  std::vector<NamedTensor> tensors;
  std::vector<std::string> left_out;
  for (const TensorInfo& info : this->tensors()) {
    if (!info.dtype) {
      left_out.push_back(absl::StrCat("'", info.name, "' (", info.type, ")"));
      continue;
    }
    ASSIGN_OR_RETURN(Tensor value, Read(info));
    tensors.push_back({info.name, std::move(value)});
  }
  if (!left_out.empty()) {
    const size_t count = left_out.size();
    left_out.resize(std::min<size_t>(count, 10));
    spdlog::warn("{}: left out {}, of element types that Belfry lacks: {}{}", path(), Counted(count, "tensor"),
                 absl::StrJoin(left_out, ", "), count > left_out.size() ? ", ..." : "");
  }
  return tensors;
}

absl::StatusOr<std::vector<NamedTensor>> ReadSafetensors(const std::string& path) {
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  return file.ReadAll();
}

}  // namespace belfry::io
