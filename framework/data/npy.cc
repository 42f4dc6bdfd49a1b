#include "framework/data/npy.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/data/npy_header_impl.h"
#include "framework/io/file.h"

namespace belfry::data {
namespace {

constexpr absl::string_view kReadableTypes = "float16, float32, float64, int32, int64, uint8 or bool";

struct NpyFile {
  io::InputFile file;
  NpyHeader header;
};

// A file whose elements have a type of Belfry's.
absl::StatusOr<NpyFile> OpenNpyFile(const std::string& path) {
  ASSIGN_OR_RETURN(io::InputFile file, io::InputFile::Open(path));
  ASSIGN_OR_RETURN(NpyHeader header, ReadNpyHeader(file));
  if (!header.dtype) return UnknownNpyType(path, header, kReadableTypes);
  return NpyFile{std::move(file), std::move(header)};
}

// The position of the first byte that is no bool; -1 if there is none.
int64_t FindNoBool(const void* elements, int64_t count) {
  const auto* const bytes = static_cast<const uint8_t*>(elements);
  for (int64_t i = 0; i < count; ++i) {
    if (bytes[i] > 1) return i;
  }
  return -1;
}

// Looks for an element outside [0, categories).
template <class T>
absl::Status CheckCategories(const Field& field, const std::byte* elements) {
  for (int64_t i = 0; i < field.shape.elements(); ++i) {
    const auto value = static_cast<int64_t>(reinterpret_cast<const T*>(elements)[i]);
    if (0 <= value && value < field.categories) continue;
    return absl::DataLossError(absl::StrCat(field.name, " ", value, "; expected 0 to ", field.categories - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckElements(const Field& field, const std::byte* elements) {
  if (field.dtype == DType::kBool && FindNoBool(elements, field.shape.elements()) >= 0) {
    return absl::DataLossError(absl::StrCat("a ", field.name, " that is neither 0 nor 1"));
  }
  if (field.categories == 0) return absl::OkStatus();
  switch (field.dtype) {
    case DType::kInt32: return CheckCategories<int32_t>(field, elements);
    case DType::kInt64: return CheckCategories<int64_t>(field, elements);
    default: return CheckCategories<uint8_t>(field, elements);
  }
}

class NpyDataset : public Dataset {
 public:
  NpyDataset(std::vector<NpyFile> files, std::vector<Field> fields)
      : files_(std::move(files)), fields_(std::move(fields)) {}

  int64_t size() const override { return files_[0].header.shape[0]; }
  absl::Span<const Field> fields() const override { return fields_; }

  absl::Status Read(int64_t index, const Example& example) const override {
    BELFRY_CHECK(0 <= index && index < size());
    for (size_t i = 0; i < fields_.size(); ++i) {
      const auto& [file, header] = files_[i];
      const uint64_t bytes = fields_[i].bytes();
      RETURN_IF_ERROR(file.Read(header.data + static_cast<uint64_t>(index) * bytes, example.raw(i), bytes));
      if (const absl::Status status = CheckElements(fields_[i], example.raw(i)); !status.ok()) {
        return absl::DataLossError(absl::StrCat(file.path(), ": example ", index, " has ", status.message()));
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<NpyFile> files_;  // by field, [N, ...]
  const std::vector<Field> fields_;
};

}  // namespace

absl::StatusOr<Tensor> ReadNpy(const std::string& path) {
  ASSIGN_OR_RETURN(const NpyFile npy, OpenNpyFile(path));
  absl::StatusOr<Tensor> tensor = Tensor::Allocate(*npy.header.dtype, npy.header.shape);
  if (!tensor.ok()) return absl::Status(tensor.status().code(), absl::StrCat(path, ": ", tensor.status().message()));
  RETURN_IF_ERROR(npy.file.Read(npy.header.data, tensor->raw(), tensor->bytes()));
  if (tensor->dtype() != DType::kBool) return tensor;
  if (const int64_t at = FindNoBool(tensor->raw(), tensor->elements()); at >= 0) {
    return absl::DataLossError(absl::StrCat(path, ": element ", at, " is a bool that is neither 0 nor 1"));
  }
  return tensor;
}

absl::Status WriteNpy(const std::string& path, const Tensor& tensor) {
  const absl::StatusOr<std::string> header = NpyHeaderText(tensor.dtype(), tensor.shape());
  if (!header.ok()) return absl::Status(header.status().code(), absl::StrCat(path, ": ", header.status().message()));
  return io::WriteFile(path, {*header, absl::string_view(static_cast<const char*>(tensor.raw()), tensor.bytes())});
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenNpy(std::vector<NpyField> fields) {
  std::vector<Field> specs;
  std::vector<NpyFile> files;
  for (NpyField& field : fields) {
    ASSIGN_OR_RETURN(NpyFile npy, OpenNpyFile(field.path));
    const Shape& shape = npy.header.shape;
    if (shape.rank() < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(field.path, ": holds one number; expected [N, ...] for N examples"));
    }
    if (!files.empty() && shape[0] != files[0].header.shape[0]) {
      return absl::InvalidArgumentError(absl::StrCat(field.path, ": holds ", shape.ToString(), "; expected ",
                                                     files[0].header.shape[0], " examples, as ", fields[0].path,
                                                     " has"));
    }
    specs.push_back(
        {field.name, *npy.header.dtype, shape.Remove(0), field.categories, std::move(field.category_names)});
    files.push_back(std::move(npy));
  }
  RETURN_IF_ERROR(CheckFields(specs));
  return std::make_unique<NpyDataset>(std::move(files), std::move(specs));
}

}  // namespace belfry::data
