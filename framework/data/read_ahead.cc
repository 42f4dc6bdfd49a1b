#include "framework/data/read_ahead.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"

namespace belfry::data {
namespace {

constexpr int kMostAhead = 1024;

}  // namespace

absl::StatusOr<std::unique_ptr<ReadAhead>> ReadAhead::Create(BatchSource& source, int depth) {
  if (depth < 1 || depth > kMostAhead) {
    return absl::InvalidArgumentError(absl::StrCat("depth is ", depth, "; expected 1 to ", kMostAhead));
  }
  std::unique_ptr<ReadAhead> ahead(new ReadAhead(source, depth));
  RETURN_IF_ERROR(ahead->Start());
  return ahead;
}

ReadAhead::ReadAhead(BatchSource& source, int depth)
    : source_(source), depth_(static_cast<size_t>(depth)), position_(source.position()) {}

// Batches that are left go back to the source when the members are destroyed, after the thread.
ReadAhead::~ReadAhead() { Stop(); }

absl::Status ReadAhead::Start() {
  ASSIGN_OR_RETURN(thread_, StartThread("to make batches ahead", [this] { Work(); }));
  return absl::OkStatus();
}

void ReadAhead::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    mutex_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

// Only this thread calls the source while it runs, so the source need not be thread-safe. A batch's bytes pass from it
// to the holder of the batch by ready_, and back by returned_, both under the mutex.
void ReadAhead::Work() {
  while (true) {
    std::vector<Batch> returned;
    bool full = false;
    {
      MutexLock lock(mutex_);
      mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stop_ || ready_.size() < depth_ || !returned_.empty();
      });
      if (stop_) return;
      returned.swap(returned_);
      full = ready_.size() >= depth_;
    }
    absl::StatusOr<Batch> made = absl::UnavailableError("");
    absl::Status status;
    {
      MutexLock lock(source_mutex_);
      returned.clear();
      if (full) continue;
      status = CatchOutOfMemory("the reading of a batch", [&] {
        made = source_.Next();
        return made.status();
      });
    }
    MutexLock lock(mutex_);
    if (status.ok()) {
      ready_.push_back(*std::move(made));
    } else {
      status_ = status;
    }
    mutex_.NotifyAll();
    if (!status.ok()) return;
  }
}

ReadAhead::Slot& ReadAhead::FreeSlot() {
  for (const auto& slot : slots_) {
    if (slot->batch.empty()) return *slot;
  }
  return *slots_.emplace_back(std::make_unique<Slot>());
}

absl::StatusOr<Batch> ReadAhead::Next() {
  MutexLock lock(mutex_);
  mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !ready_.empty() || !status_.ok(); });
  if (ready_.empty()) return status_;
  Slot& slot = FreeSlot();
  slot.batch = std::move(ready_.front());
  ready_.pop_front();
  slot.towers = slot.batch.towers();
  slot.examples = slot.batch.examples();
  slot.indices.assign(slot.batch.indices().begin(), slot.batch.indices().end());
  slot.position = slot.batch.position();
  slot.step = slot.batch.step();
  position_ = slot.next = slot.batch.next();
  mutex_.NotifyAll();
  return Batch(*this, slot);
}

void ReadAhead::GiveBack(BatchContents& contents) {
  MutexLock lock(mutex_);
  returned_.push_back(std::move(static_cast<Slot&>(contents).batch));
  mutex_.NotifyAll();
}

Position ReadAhead::position() const {
  MutexLock lock(mutex_);
  return position_;
}

absl::Status ReadAhead::Resume(const io::Metadata& saved) {
  {
    MutexLock lock(mutex_);
    const auto lent = [](const auto& slot) { return !slot->batch.empty(); };
    if (std::any_of(slots_.begin(), slots_.end(), lent)) {
      return absl::FailedPreconditionError("a source cannot resume at another place while a batch is on loan");
    }
  }
  Stop();
  MutexLock lock(mutex_);
  ready_.clear();
  returned_.clear();
  status_ = source_.Resume(saved);
  RETURN_IF_ERROR(status_);
  position_ = source_.position();
  stop_ = false;
  status_ = Start();
  return status_;
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
