#include "framework/data/batch_source.h"

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
