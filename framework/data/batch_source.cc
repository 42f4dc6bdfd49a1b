#include "framework/data/batch_source.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace belfry::data {

Batch& Batch::operator=(Batch&& other) noexcept {
  if (this == &other) return *this;
  Release();
  source_ = std::exchange(other.source_, nullptr);
  contents_ = other.contents_;
  return *this;
}

std::vector<int64_t> UnknownExtents(absl::Span<const Field> fields, const TowerBatch& tower) {
  std::vector<int64_t> extents;
  for (size_t i = 0; i < fields.size() && i < tower.fields.size(); ++i) {
    const Shape &field = fields[i].shape, &given = tower.fields[i].shape();
    for (int axis = 0; axis < field.rank() && axis + 1 < given.rank(); ++axis) {
      if (field[axis] == Shape::kUnknown) extents.push_back(given[axis + 1]);
    }
  }
  return extents;
}

std::string FindFault(absl::Span<const Field> fields, const Batch& batch) {
  for (const TowerBatch& tower : batch.towers()) {
    for (size_t f = 0; f < fields.size() && f < tower.fields.size(); ++f) {
      const Field& field = fields[f];
      const bool floats = IsFloating(tower.fields[f].dtype());
      if (!floats && field.categories == 0) continue;
      const std::vector<double> values = tower.fields[f].ToDoubles();
      const auto fault = std::find_if(values.begin(), values.end(), [&](double value) {
        return floats ? !std::isfinite(value) : value >= static_cast<double>(field.categories);
      });
      if (fault == values.end()) continue;
      const auto row = static_cast<size_t>(fault - values.begin()) / (values.size() / static_cast<size_t>(tower.count));
      const size_t example = static_cast<size_t>(tower.offset) + row;
      return absl::StrCat(
          "field '", field.name, "' of example ", example, " of the batch",
          example < batch.indices().size() ? absl::StrCat(", ", batch.indices()[example], " of the data,") : "", " is ",
          *fault, floats ? "" : absl::StrCat(", of ", field.categories, " categories"));
    }
  }
  return "";
}

// source_ is cleared before the memory is free again, so a Batch never refers to memory that others may write.
void Batch::Release() {
  if (source_ != nullptr) std::exchange(source_, nullptr)->GiveBack(*contents_);
}

absl::Status BatchSource::Resume(const io::Metadata& /*saved*/) {
  return absl::UnimplementedError(
      "this source of batches cannot move to the position that a checkpoint holds; override BatchSource::Resume, or "
      "make the source at that position and set TrainerOptions::resume");
}

}  // namespace belfry::data
