#include "framework/runtime/saved_model/saved_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry {

absl::StatusOr<SavedModel> SavedModel::Open(const std::string& path, const OpRegistry& registry,
                                            const DeviceSet& devices, const SessionOptions& options) {
  ASSIGN_OR_RETURN(const ModelContents contents, ModelContents::Open(path));
  SavedModel model;
  model.graph_ = std::make_unique<Graph>(registry);
  ASSIGN_OR_RETURN(ModelEnds ends, contents.Build(Scope(*model.graph_), ModelMode::kFixed));
  model.inputs_ = std::move(ends.inputs);
  model.outputs_ = std::move(ends.outputs);
  for (const NamedOutput& output : model.outputs_) model.fetches_.push_back(output.value);
  SessionOptions with_weights = options;
  with_weights.fold = Fold::kWeights;
  ASSIGN_OR_RETURN(model.session_, Session::Create(*model.graph_, devices, with_weights));
  return model;
}

absl::Status SavedModel::Check(absl::Span<const TensorSpec> specs) const {
  if (specs.size() != inputs_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("The model takes ", inputs_.size(), " inputs, but ", specs.size(), " were given"));
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto& [name, input] = inputs_[i];
    const Shape& shape = specs[i].shape;
    if (!shape.known()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input '", name, "' is ", shape.ToString(), ", of which an extent is not known"));
    }
    if (specs[i].dtype == input.dtype() && input.shape().CompatibleWith(shape)) continue;
    return absl::InvalidArgumentError(absl::StrCat("Input '", name, "' is ", DTypeName(specs[i].dtype), " ",
                                                   shape.ToString(), ", but must be ", DTypeName(input.dtype()), " ",
                                                   input.shape().ToString()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> SavedModel::Run(absl::Span<const Tensor> values) const {
  std::vector<TensorSpec> specs;
  for (const Tensor& value : values) specs.push_back({value.dtype(), value.shape()});
  RETURN_IF_ERROR(Check(specs));
  std::vector<Feed> feeds;
  for (size_t i = 0; i < values.size(); ++i) feeds.push_back({inputs_[i].value, values[i]});
  return session_->Run(feeds, fetches_);
}

absl::StatusOr<std::unique_ptr<PreparedStep>> SavedModel::Prepare(absl::Span<const Shape> shapes) const {
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    specs.push_back({i < inputs_.size() ? inputs_[i].value.dtype() : DType::kFloat32, shapes[i]});
  }
  RETURN_IF_ERROR(Check(specs));
  std::vector<FeedSpec> feeds;
  for (size_t i = 0; i < shapes.size(); ++i) feeds.push_back({inputs_[i].value, shapes[i]});
  return session_->Prepare(feeds, fetches_);
}

}  // namespace belfry
