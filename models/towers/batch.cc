#include "models/towers/batch.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "framework/data/augment.h"
#include "ops/array.h"
#include "ops/image.h"

namespace belfry::models {

namespace {

// Sets each unknown extent to what `next` returns.
template <class Next>
void FillUnknown(Shape& shape, const Next& next) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == Shape::kUnknown) shape.set_dim(axis, next());
  }
}

}  // namespace

std::string NodeName(absl::string_view name) {
  const auto plain = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.'; };
  std::string valid(name);
  for (char& c : valid) {
    if (!plain(c) && c != '-') c = '_';
  }
  return valid.empty() || !plain(valid.front()) ? "x" + valid : valid;
}

Batch::Batch(const Scope& scope, absl::Span<const data::Field> fields) : graph_(&scope.graph()), where_(scope.name()) {
  std::vector<data::Field> known(fields.begin(), fields.end());
  for (data::Field& field : known) FillUnknown(field.shape, [] { return 1; });
  if (const absl::Status status = data::CheckFields(known); !status.ok()) {
    scope.Fail(status);
    return;
  }
  fields_.assign(fields.begin(), fields.end());
  const Scope inputs = scope.NameScope("batch");
  for (const data::Field& field : fields) {
    placeholders_.push_back(
        ops::Placeholder(inputs.Named(NodeName(field.name)), field.dtype, field.shape.Insert(0, Shape::kUnknown)));
  }
  values_ = placeholders_;
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].in_step != nullptr) values_[i] = ImagesOf(inputs, *fields_[i].in_step, i);
  }
}

Output Batch::ImagesOf(const Scope& scope, const data::ImagesInStep& images, size_t field) const {
  const absl::StatusOr<size_t> positions = data::FindField(fields_, data::kPositionField);
  if (!positions.ok()) {
    scope.Fail(positions.status());
    return Output();
  }
  const Scope made = scope.Named(NodeName(fields_[field].name) + "_augmented");
  const Output at = placeholders_[*positions];
  if (images.resident.elements() == 0) {
    return ops::AugmentImages(made, placeholders_[field], at, images.policy, images.seed);
  }
  // ops::Const would copy the images for each tower.
  const Output all = scope.Add("Const", {}, {{"dtype", images.resident.dtype()}, {"value", Tensor(images.resident)}});
  return ops::GatherAndAugmentImages(made, all, at, images.policy, images.seed);
}

Output Batch::operator[](FieldName name) const {
  const absl::StatusOr<size_t> index = data::FindField(fields_, name.name);
  if (index.ok()) return values_[*index];
  if (graph_ != nullptr) {
    graph_->Fail(absl::InvalidArgumentError(absl::StrCat(index.status().message(), ", asked for by the model at ",
                                                         where_.empty() ? "" : absl::StrCat(where_, ", "),
                                                         name.location.ToString())));
  }
  return Output();
}

std::vector<FeedSpec> Batch::FeedSpecs(int64_t examples, absl::Span<const int64_t> extents) const {
  std::vector<FeedSpec> specs;
  size_t next = 0;
  for (size_t i = 0; i < fields_.size(); ++i) {
    Shape shape = fields_[i].shape;
    FillUnknown(shape, [&] { return next < extents.size() ? extents[next++] : Shape::kUnknown; });
    specs.push_back({placeholders_[i], shape.Insert(0, examples)});
  }
  return specs;
}

std::vector<Feed> Batch::Feeds(const data::TowerBatch& examples) const {
  std::vector<Feed> feeds;
  for (size_t i = 0; i < std::min(placeholders_.size(), examples.fields.size()); ++i) {
    feeds.push_back({placeholders_[i], examples.fields[i]});
  }
  return feeds;
}

}  // namespace belfry::models
