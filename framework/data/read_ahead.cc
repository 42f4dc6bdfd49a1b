#include "framework/data/read_ahead.h"

#include <utility>

#include "framework/base/status.h"

namespace belfry::data {

struct ReadAhead::Loan : Slot {
  Batch batch;  // of the source
};

absl::StatusOr<std::unique_ptr<ReadAhead>> ReadAhead::Create(BatchSource& source, int depth) {
  const PrefetcherOptions options{.start = source.position(), .threads = 1, .depth = depth};
  RETURN_IF_ERROR(CheckRing(options));
  std::unique_ptr<ReadAhead> ahead(new ReadAhead(source, options));
  RETURN_IF_ERROR(ahead->Start());
  return ahead;
}

std::unique_ptr<BatchRing::Slot> ReadAhead::NewSlot() const { return std::make_unique<Loan>(); }

// Only the thread calls the source, so the source need not be thread-safe.
absl::Status ReadAhead::Fill(Slot& slot, int64_t /*begin*/, int64_t /*end*/, int /*worker*/) {
  std::vector<Batch> returned;
  {
    MutexLock lock(mutex_);
    returned.swap(returned_);
  }
  MutexLock lock(source_mutex_);
  returned.clear();
  RETURN_IF_ERROR(moved_);
  ASSIGN_OR_RETURN(Batch batch, source_.Next());
  slot.towers = batch.towers();
  slot.examples = batch.examples();
  slot.indices.assign(batch.indices().begin(), batch.indices().end());
  slot.position = batch.position();
  slot.next = batch.next();
  slot.step = batch.step();
  static_cast<Loan&>(slot).batch = std::move(batch);
  return absl::OkStatus();
}

void ReadAhead::Drop(Slot& slot) { returned_.push_back(std::move(static_cast<Loan&>(slot).batch)); }

absl::StatusOr<Position> ReadAhead::Seek(const io::Metadata& saved) {
  MutexLock lock(source_mutex_);
  returned_.clear();
  moved_ = source_.Resume(saved);
  RETURN_IF_ERROR(moved_);
  return source_.position();
}

void ReadAhead::PutPosition(Position next, io::Metadata& metadata) const {
  MutexLock lock(source_mutex_);
  source_.PutPosition(next, metadata);
}

absl::StatusOr<std::vector<std::string>> ReadAhead::Settings() const {
  MutexLock lock(source_mutex_);
  return source_.Settings();
}

}  // namespace belfry::data
