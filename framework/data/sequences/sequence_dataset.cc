#include "framework/data/sequences/sequence_dataset.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/status.h"

namespace belfry::data {
namespace {

class InMemorySequences : public SequenceDataset {
 public:
  InMemorySequences(std::vector<int64_t> begins, const std::vector<TensorField>& sequences,
                    const std::vector<TensorField>& others)
      : begins_(std::move(begins)), sequences_(sequences.size()) {
    for (const auto* const fields : {&sequences, &others}) {
      for (const TensorField& field : *fields) {
        Shape shape = field.examples.shape().Remove(0);
        step_bytes_.push_back(static_cast<size_t>(shape.elements()) * SizeOf(field.examples.dtype()));
        if (fields == &sequences) shape = shape.Insert(0, Shape::kUnknown);
        fields_.push_back({field.name, field.examples.dtype(), shape, field.categories, field.category_names});
        tensors_.push_back(field.examples);
      }
    }
  }

  int64_t size() const override { return static_cast<int64_t>(begins_.size()) - 1; }
  absl::Span<const Field> fields() const override { return fields_; }
  int64_t length(int64_t index) const override { return begins_[index + 1] - begins_[index]; }

  absl::Status Read(int64_t index, const Example& example) const override {
    BELFRY_CHECK(0 <= index && index < size());
    for (size_t i = 0; i < fields_.size(); ++i) {
      const bool sequence = i < sequences_;
      const auto begin = static_cast<size_t>(sequence ? begins_[index] : index);
      const size_t bytes = (sequence ? static_cast<size_t>(length(index)) : 1) * step_bytes_[i];
      if (bytes == 0) continue;
      std::memcpy(example.raw(i), static_cast<const std::byte*>(tensors_[i].raw()) + begin * step_bytes_[i], bytes);
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<int64_t> begins_;  // the first step of each example, and the number of all
  const size_t sequences_;             // number of fields, the first ones, that are sequences
  std::vector<Field> fields_;
  std::vector<Tensor> tensors_;     // by field
  std::vector<size_t> step_bytes_;  // of an element of axis 0
};

absl::Status CheckRows(const std::vector<TensorField>& fields, int64_t rows, absl::string_view what) {
  for (const TensorField& field : fields) {
    const Shape& shape = field.examples.shape();
    if (shape.rank() >= 1 && shape[0] == rows) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the field '", field.name, "' is ", shape.ToString(), "; expected [", rows, ", ...], ", what));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SequenceDataset>> FromSequences(Tensor lengths, std::vector<TensorField> sequences,
                                                               std::vector<TensorField> others) {
  if (lengths.dtype() != DType::kInt32 || lengths.shape().rank() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("the lengths of sequences are ", DTypeName(lengths.dtype()), " ",
                                                   lengths.shape().ToString(), "; expected int32 [N]"));
  }
  std::vector<int64_t> begins = {0};
  for (const int32_t length : lengths.span<int32_t>()) {
    if (length < 0) {
      return absl::InvalidArgumentError(absl::StrCat("example ", begins.size() - 1, " has the length ", length));
    }
    begins.push_back(begins.back() + length);
  }
  if (sequences.empty()) return absl::InvalidArgumentError("no field is a sequence; expected at least one");
  RETURN_IF_ERROR(CheckRows(sequences, begins.back(), "the sum of the lengths"));
  RETURN_IF_ERROR(CheckRows(others, lengths.shape()[0], "one element for each length"));
  std::vector<Field> all;
  for (const std::vector<TensorField>* const fields : {&sequences, &others}) {
    if (fields->empty()) continue;
    RETURN_IF_ERROR(FromTensors(*fields).status());
    for (const TensorField& field : *fields) all.push_back({.name = field.name});
  }
  RETURN_IF_ERROR(CheckFields(all));
  return std::make_unique<InMemorySequences>(std::move(begins), sequences, others);
}

}  // namespace belfry::data
