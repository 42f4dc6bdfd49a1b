#include "framework/data/in_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/status.h"

namespace belfry::data {
namespace {

class InMemoryDataset : public Dataset {
 public:
  InMemoryDataset(Tensor inputs, Tensor labels, ExampleSpec spec)
      : inputs_(std::move(inputs)), labels_(std::move(labels)), spec_(std::move(spec)) {}

  int64_t size() const override { return inputs_.shape()[0]; }
  const ExampleSpec& spec() const override { return spec_; }

  absl::Status Read(int64_t index, absl::Span<std::byte>, Example& example) const override {
    BELFRY_CHECK(0 <= index && index < size());
    example.input = static_cast<const std::byte*>(inputs_.raw()) + static_cast<size_t>(index) * spec_.input_bytes();
    if (spec_.label_dtype == DType::kInt32) {
      example.label = labels_.data<int32_t>()[index];
    } else {
      example.target = labels_.data<float>()[index];
    }
    return absl::OkStatus();
  }

 private:
  const Tensor inputs_, labels_;
  const ExampleSpec spec_;
};

absl::StatusOr<ExampleSpec> SpecOf(const Tensor& inputs, const Tensor& labels, DType label_dtype) {
  const bool images = inputs.dtype() == DType::kUInt8;
  if (images ? inputs.shape().rank() != 4 : inputs.dtype() != DType::kFloat32 || inputs.shape().rank() < 1) {
    return absl::InvalidArgumentError(absl::StrCat("inputs are ", DTypeName(inputs.dtype()), " ",
                                                   inputs.shape().ToString(),
                                                   "; expected float32 [N, ...] or uint8 images [N, H, W, C]"));
  }
  if (labels.dtype() != label_dtype || labels.shape() != Shape{inputs.shape()[0]}) {
    return absl::InvalidArgumentError(absl::StrCat("labels are ", DTypeName(labels.dtype()), " ",
                                                   labels.shape().ToString(), "; expected ", DTypeName(label_dtype),
                                                   " [", inputs.shape()[0], "], one for each of the inputs"));
  }
  ExampleSpec spec;
  spec.shape = inputs.shape().Remove(0);
  spec.dtype = inputs.dtype();
  spec.layout = PixelLayout::kInterleaved;
  spec.label_dtype = label_dtype;
  return spec;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> FromTensors(const Tensor& inputs, const Tensor& targets) {
  ASSIGN_OR_RETURN(ExampleSpec spec, SpecOf(inputs, targets, DType::kFloat32));
  return std::make_unique<InMemoryDataset>(inputs, targets, std::move(spec));
}

absl::StatusOr<std::unique_ptr<Dataset>> FromTensors(const Tensor& inputs, const Tensor& labels, int32_t classes,
                                                     std::vector<std::string> class_names) {
  ASSIGN_OR_RETURN(ExampleSpec spec, SpecOf(inputs, labels, DType::kInt32));
  if (classes < 1 || (!class_names.empty() && class_names.size() != static_cast<size_t>(classes))) {
    return absl::InvalidArgumentError(absl::StrCat(classes, " classes with ", class_names.size(),
                                                   " names; expected at least one class, and no names or one each"));
  }
  for (int64_t i = 0; i < labels.elements(); ++i) {
    if (const int32_t label = labels.data<int32_t>()[i]; label < 0 || label >= classes) {
      return absl::InvalidArgumentError(
          absl::StrCat("example ", i, " has label ", label, "; expected 0 to ", classes - 1));
    }
  }
  spec.classes = classes;
  spec.class_names = std::move(class_names);
  return std::make_unique<InMemoryDataset>(inputs, labels, std::move(spec));
}

}  // namespace belfry::data
