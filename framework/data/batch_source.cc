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

}  // namespace belfry::data
