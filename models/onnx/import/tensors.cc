#include "models/onnx/import/tensors_impl.h"

#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/file.h"

namespace belfry::onnx {
namespace {

absl::Status WrongCount(int64_t have, const Tensor& tensor, absl::string_view unit) {
  return absl::InvalidArgumentError(absl::StrCat(
      "has ", have, " ", unit, ", but its shape ", tensor.shape().ToString(), " of ", DTypeName(tensor.dtype()),
      " needs ", unit == "bytes" ? static_cast<int64_t>(tensor.bytes()) : tensor.elements()));
}

template <class To, class From>
void Copy(const From& from, Tensor& tensor) {
  auto* to = static_cast<To*>(tensor.raw());
  for (const auto value : from) *to++ = static_cast<To>(value);
}

// The number of elements in the typed field of a dtype, or -1 if that field has none and there are raw bytes.
int64_t TypedCount(const TensorProto& proto, DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return proto.float_data_size();
    case DType::kFloat64: return proto.double_data_size();
    case DType::kInt64: return proto.int64_data_size();
    default: return proto.int32_data_size();
  }
}

void CopyTyped(const TensorProto& proto, Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return Copy<float>(proto.float_data(), tensor);
    case DType::kFloat64: return Copy<double>(proto.double_data(), tensor);
    case DType::kInt64: return Copy<int64_t>(proto.int64_data(), tensor);
    case DType::kInt32: return Copy<int32_t>(proto.int32_data(), tensor);
    case DType::kFloat16:
    case DType::kBFloat16: return Copy<uint16_t>(proto.int32_data(), tensor);
    case DType::kUInt8: return Copy<uint8_t>(proto.int32_data(), tensor);
    case DType::kBool: return Copy<uint8_t>(proto.int32_data(), tensor);
  }
}

// A bool may be nothing but 0 or 1.
void NormaliseBools(Tensor& tensor) {
  if (tensor.dtype() != DType::kBool) return;
  auto* const bytes = static_cast<uint8_t*>(tensor.raw());
  for (int64_t i = 0; i < tensor.elements(); ++i) bytes[i] = bytes[i] != 0 ? 1 : 0;
}

absl::StatusOr<Shape> ShapeOf(const TensorProto& proto) {
  if (proto.dims_size() > kMaxRank) return absl::UnimplementedError("has more than 64 axes");
  const std::vector<int64_t> dims(proto.dims().begin(), proto.dims().end());
  absl::StatusOr<Shape> shape = Shape::Make(dims);
  if (shape.ok() && !shape->known()) return absl::InvalidArgumentError("has a negative extent");
  return shape;
}

// Adds the tensor's name to an error.
absl::Status Named(const TensorProto& proto, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("tensor '", proto.name(), "' ", status.message()));
}

// A path below `folder`, also after links are followed.
absl::StatusOr<std::string> PathBelow(const std::string& folder, const std::string& location) {
  namespace fs = std::filesystem;
  const fs::path relative(location);
  bool leaves = relative.empty() || relative.is_absolute();
  for (const fs::path& part : relative) leaves = leaves || part == "..";
  std::error_code error;
  const fs::path base = fs::weakly_canonical(folder.empty() ? "." : folder, error);
  const fs::path path = fs::weakly_canonical(base / relative, error);
  const auto [end, at] = std::mismatch(base.begin(), base.end(), path.begin(), path.end());
  if (leaves || error || end != base.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has its elements in '", location, "', which is not below the folder of the model"));
  }
  return path.string();
}

}  // namespace

std::optional<DType> DTypeOfElements(int32_t data_type) {
  switch (data_type) {
    case TensorProto::FLOAT: return DType::kFloat32;
    case TensorProto::DOUBLE: return DType::kFloat64;
    case TensorProto::FLOAT16: return DType::kFloat16;
    case TensorProto::BFLOAT16: return DType::kBFloat16;
    case TensorProto::INT32: return DType::kInt32;
    case TensorProto::INT64: return DType::kInt64;
    case TensorProto::UINT8: return DType::kUInt8;
    case TensorProto::BOOL: return DType::kBool;
    default: return std::nullopt;
  }
}

absl::StatusOr<DType> RequireDType(int32_t data_type) {
  if (const std::optional<DType> dtype = DTypeOfElements(data_type)) return *dtype;
  return absl::UnimplementedError(
      absl::StrCat("has ONNX's element type ", data_type, ", which Belfry has no dtype for"));
}

size_t BytesOf(const TensorProto& proto) {
  const std::optional<DType> dtype = DTypeOfElements(proto.data_type());
  const absl::StatusOr<Shape> shape = ShapeOf(proto);
  return dtype && shape.ok() ? Tensor::WithoutData(*dtype, *shape).bytes() : std::numeric_limits<size_t>::max();
}

absl::StatusOr<Tensor> TensorReader::Read(const TensorProto& proto) const {
  const auto read = [&]() -> absl::StatusOr<Tensor> {
    ASSIGN_OR_RETURN(const DType dtype, RequireDType(proto.data_type()));
    ASSIGN_OR_RETURN(const Shape shape, ShapeOf(proto));
    const Tensor without_data = Tensor::WithoutData(dtype, shape);
    const bool external = proto.data_location() == TensorProto::EXTERNAL, raw = !proto.raw_data().empty();
    const int64_t typed = TypedCount(proto, dtype);
    if (!external && raw && proto.raw_data().size() != without_data.bytes()) {
      return WrongCount(static_cast<int64_t>(proto.raw_data().size()), without_data, "bytes");
    }
    if (!external && !raw && typed != shape.elements()) return WrongCount(typed, without_data, "elements");
    Tensor tensor;
    if (external) {
      tensor = without_data;
      RETURN_IF_ERROR(ReadExternal(proto, tensor));
    } else {
      ASSIGN_OR_RETURN(tensor, Tensor::Allocate(dtype, shape));
      if (raw) std::memcpy(tensor.raw(), proto.raw_data().data(), tensor.bytes());
      if (!raw) CopyTyped(proto, tensor);
    }
    NormaliseBools(tensor);
    return tensor;
  };
  absl::StatusOr<Tensor> tensor = read();
  if (!tensor.ok()) return Named(proto, tensor.status());
  return tensor;
}

absl::Status TensorReader::ReadExternal(const TensorProto& proto, Tensor& tensor) const {
  std::string location;
  uint64_t offset = 0, length = tensor.bytes();
  for (const StringStringEntryProto& entry : proto.external_data()) {
    bool ok = true;
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") ok = absl::SimpleAtoi(entry.value(), &offset);
    if (entry.key() == "length") ok = absl::SimpleAtoi(entry.value(), &length);
    if (!ok) {
      return absl::InvalidArgumentError(
          absl::StrCat("has the ", entry.key(), " '", entry.value(), "', which is no number"));
    }
  }
  if (length != tensor.bytes()) return WrongCount(static_cast<int64_t>(length), tensor, "bytes");
  ASSIGN_OR_RETURN(const std::string path, PathBelow(folder_, location));
  ASSIGN_OR_RETURN(const io::InputFile file, io::InputFile::Open(path));
  if (offset > file.size() || length > file.size() - offset) {
    return absl::DataLossError(absl::StrCat("has bytes ", offset, " to ", offset, " + ", length, " of ", path,
                                            ", which has only ", file.size()));
  }
  uint64_t& read = read_[path];
  read += length;
  if (read / 4 > file.size()) {
    return absl::InvalidArgumentError(absl::StrCat("is one of many that have the same elements of ", path));
  }
  ASSIGN_OR_RETURN(tensor, Tensor::Allocate(tensor.dtype(), tensor.shape()));
  return file.Read(offset, tensor.raw(), length);
}

}  // namespace belfry::onnx
