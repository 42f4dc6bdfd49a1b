#include "framework/data/in_memory.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/status.h"

namespace belfry::data {
namespace {

class InMemoryDataset : public Dataset {
 public:
  InMemoryDataset(std::vector<Tensor> tensors, std::vector<Field> fields)
      : tensors_(std::move(tensors)), fields_(std::move(fields)) {}

  int64_t size() const override { return tensors_[0].shape()[0]; }
  absl::Span<const Field> fields() const override { return fields_; }

  absl::Status Read(int64_t index, const Example& example) const override {
    BELFRY_CHECK(0 <= index && index < size());
    for (size_t i = 0; i < fields_.size(); ++i) {
      const size_t bytes = fields_[i].bytes();
      if (bytes == 0) continue;
      std::memcpy(example.raw(i), static_cast<const std::byte*>(tensors_[i].raw()) + static_cast<size_t>(index) * bytes,
                  bytes);
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<Tensor> tensors_;  // by field, [N, ...]
  const std::vector<Field> fields_;
};

template <class T>
absl::Status CheckCategories(const Field& field, const Tensor& examples) {
  for (int64_t i = 0; i < examples.elements(); ++i) {
    const auto value = static_cast<int64_t>(examples.data<T>()[i]);
    if (0 <= value && value < field.categories) continue;
    return absl::InvalidArgumentError(absl::StrCat("example ", i / field.shape.elements(), " has ", field.name, " ",
                                                   value, "; expected 0 to ", field.categories - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckCategories(const Field& field, const Tensor& examples) {
  if (field.categories == 0) return absl::OkStatus();
  switch (field.dtype) {
    case DType::kInt32: return CheckCategories<int32_t>(field, examples);
    case DType::kInt64: return CheckCategories<int64_t>(field, examples);
    default: return CheckCategories<uint8_t>(field, examples);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> FromTensors(std::vector<TensorField> fields) {
  std::vector<Field> specs;
  std::vector<Tensor> tensors;
  for (TensorField& field : fields) {
    const Shape& shape = field.examples.shape();
    if (shape.rank() < 1 || shape[0] != fields[0].examples.shape()[0]) {
      return absl::InvalidArgumentError(
          absl::StrCat("the field '", field.name, "' is ", DTypeName(field.examples.dtype()), " ", shape.ToString(),
                       shape.rank() < 1 ? "; expected [N, ...] for N examples"
                                        : absl::StrCat("; expected ", fields[0].examples.shape()[0], " examples, as '",
                                                       fields[0].name, "' has")));
    }
    specs.push_back(
        {field.name, field.examples.dtype(), shape.Remove(0), field.categories, std::move(field.category_names)});
    tensors.push_back(field.examples);
  }
  RETURN_IF_ERROR(CheckFields(specs));
  for (size_t i = 0; i < specs.size(); ++i) RETURN_IF_ERROR(CheckCategories(specs[i], tensors[i]));
  return std::make_unique<InMemoryDataset>(std::move(tensors), std::move(specs));
}

}  // namespace belfry::data
