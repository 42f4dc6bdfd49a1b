#include "framework/data/batch_source.h"

namespace belfry::data {

Batch& Batch::operator=(Batch&& other) noexcept {
  if (this == &other) return *this;
  Release();
  source_ = std::exchange(other.source_, nullptr);
  contents_ = other.contents_;
  return *this;
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
