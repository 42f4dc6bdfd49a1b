#include "framework/data/ring/batch_ring.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"
#include "framework/base/units.h"

namespace belfry::data {
namespace {

constexpr int kMaxThreads = 1024, kMaxDepth = 1024;
constexpr absl::string_view kDuringRead = "the reading of a batch";

// Small enough that threads share a batch evenly, large enough that locking once a chunk costs nothing noticeable.
int64_t ChunkSize(const PrefetcherOptions& options) {
  if (options.threads == 0) return options.batch_size;
  return std::clamp<int64_t>(options.batch_size / (2 * options.threads), 1, 32);
}

}  // namespace

absl::Status BatchRing::CheckRing(const PrefetcherOptions& options) {
  const auto within = [](absl::string_view name, int value, int least, int most) {
    return value >= least && value <= most
               ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; expected ", least, " to ", most));
  };
  RETURN_IF_ERROR(within("threads", options.threads, 0, kMaxThreads));
  return within("depth", options.depth, 1, kMaxDepth);
}

BatchRing::BatchRing(PrefetcherOptions options, Rules rules)
    : options_(std::move(options)),
      rules_(rules),
      chunk_(ChunkSize(options_)),
      to_open_(options_.start),
      to_take_(options_.start),
      waits_(rules.waits) {}

// Threads call the functions and use the members of derived classes, so they must be gone before any of these is.
BatchRing::~BatchRing() { BELFRY_CHECK(threads_.empty()); }

absl::Status BatchRing::Start() {
  if (!rules_.grows) {
    MutexLock lock(mutex_);
    for (int i = 0; i <= options_.depth; ++i) AddSlot();
  }
  threads_.reserve(options_.threads);  // no exception may pass a running thread
  for (int i = 0; i < options_.threads; ++i) {
    const std::string purpose = absl::StrCat("to read data, number ", i + 1, " of ", options_.threads);
    ASSIGN_OR_RETURN(std::thread thread, StartThread(purpose, [this, i] { Work(i); }));
    threads_.push_back(std::move(thread));
  }
  return absl::OkStatus();
}

void BatchRing::Stop() {
  Cancel();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

// A worker waits only while the newest batch is wholly claimed and the next one cannot be opened. Only Take, GiveBack,
// Resume and Cancel can end that, and all notify, so no wake-up is lost. Opening a batch need not notify, because what
// allows it already makes CanClaim true for every worker.
void BatchRing::Work(int worker) {
  while (true) {
    Chunk chunk;
    {
      MutexLock lock(mutex_);
      mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return cancelled_ || CanClaim(); });
      if (cancelled_) return;
      chunk = Claim();
    }
    Make(chunk, worker);
  }
}

bool BatchRing::AtEnd(const Position& position) const {
  return options_.epochs > 0 && position.epoch >= options_.epochs;
}

bool BatchRing::CanOpen() const {
  if (!stopped_.ok() || AtEnd(to_open_)) return false;
  return rules_.grows ? open_.size() < static_cast<size_t>(options_.depth) : !free_.empty();
}

bool BatchRing::CanClaim() const {
  if (moving_ || waits_) return false;
  return (!open_.empty() && open_.back()->claimed < open_.back()->pieces) || CanOpen();
}

// Invariant: of the open batches only the newest has unclaimed pieces, because the next one is opened only when the
// newest is used up. So batches are finished nearly in the order they are taken, and there is one place to look for
// work.
BatchRing::Chunk BatchRing::Claim() {
  if (!CanClaim()) return {};
  if (open_.empty() || open_.back()->claimed == open_.back()->pieces) {
    // The analysis does not see that Claim's mutex is held.
    stopped_ = CatchOutOfMemory(kDuringRead, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      OpenNext();
      return absl::OkStatus();
    });
    if (!stopped_.ok()) {
      mutex_.NotifyAll();
      return {};
    }
  }
  Slot& slot = *open_.back();
  const int64_t begin = slot.claimed;
  slot.claimed = std::min(begin + chunk_, slot.pieces);
  return {&slot, begin, slot.claimed};
}

void BatchRing::OpenNext() {
  if (free_.empty()) AddSlot();
  Slot& slot = *free_.front();
  slot.position = to_open_;
  slot.next = to_open_.batch + options_.stride < batches_per_epoch()
                  ? Position{to_open_.epoch, to_open_.batch + options_.stride}
                  : Position{to_open_.epoch + 1, 0};
  slot.step = to_open_.epoch * batches_per_epoch() + to_open_.batch;
  slot.claimed = slot.made = 0;
  slot.status = absl::OkStatus();
  Open(slot);
  free_.erase(free_.begin());
  open_.push_back(&slot);
  to_open_ = slot.next;
}

// The lists have room for all slots, so that nothing else allocates for them.
void BatchRing::AddSlot() {
  slots_.reserve(slots_.size() + 1);
  open_.reserve(slots_.size() + 1);
  free_.reserve(slots_.size() + 1);
  free_.push_back(slots_.emplace_back(NewSlot()).get());
}

// Pieces of a batch are disjoint, so no two threads write the same memory. An error stops the opening of further
// batches, but every piece of those already open is still made. So each of them is finished, Next cannot hang, and the
// error kept is the one at the lowest piece: the same in every run.
void BatchRing::Make(const Chunk& chunk, int worker) {
  if (chunk.slot == nullptr) return;
  Slot& slot = *chunk.slot;
  const absl::Status status = CatchOutOfMemory(kDuringRead, [&] { return Fill(slot, chunk.begin, chunk.end, worker); });
  MutexLock lock(mutex_);
  if (!status.ok() && (slot.status.ok() || chunk.begin < slot.failed_at)) {
    stopped_ = slot.status = status;
    slot.failed_at = chunk.begin;
  }
  slot.made += chunk.end - chunk.begin;
  if (slot.made == slot.pieces || moving_) mutex_.NotifyAll();
}

// If all slots are on loan, only the caller can free one; waiting for it would be a deadlock, so Take reports it.
bool BatchRing::CanTake() const {
  return cancelled_ || (open_.empty() ? !CanOpen() : open_.front()->made == open_.front()->pieces);
}

absl::StatusOr<Batch> BatchRing::Next() {
  if (options_.threads > 0) {
    MutexLock lock(mutex_);
    if (waits_) mutex_.NotifyAll();
    waits_ = false;
    mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return CanTake(); });
    return Take();
  }
  // Held to the end, so that another caller cannot take the batch being made here.
  MutexLock own(own_mutex_);
  while (true) {
    Chunk chunk;
    {
      // One critical section decides between taking and making: a batch on loan may be given back at any moment.
      MutexLock lock(mutex_);
      waits_ = false;
      if (CanTake()) return Take();
      chunk = Claim();
    }
    Make(chunk, /*worker=*/0);
  }
}

absl::StatusOr<Batch> BatchRing::Take() {
  if (cancelled_) return absl::CancelledError("the source of batches was cancelled");
  const absl::Status status = open_.empty() ? stopped_ : open_.front()->status;
  if (!status.ok()) {
    // Otherwise all stays as it is, so every later call returns this error again.
    if (rules_.retries) Restart();
    return status;
  }
  if (AtEnd(to_take_)) {
    return absl::OutOfRangeError(absl::StrCat("end of data after ", Counted(options_.epochs, "epoch")));
  }
  if (open_.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("all batches are still on loan, and the ring has only ",
                                                      slots_.size(), " slots; return one first, or increase depth"));
  }
  Slot& slot = *open_.front();
  open_.erase(open_.begin());
  to_take_ = slot.next;
  mutex_.NotifyAll();  // another caller of Next may now have nothing left to wait for
  return Batch(*this, slot);
}

bool BatchRing::OnLoan() const { return free_.size() + open_.size() < slots_.size(); }

void BatchRing::Restart() {
  for (Slot* slot : open_) {
    Drop(*slot);
    free_.push_back(slot);
  }
  open_.clear();
  to_open_ = to_take_;
  stopped_ = absl::OkStatus();
}

absl::Status BatchRing::Resume(const io::Metadata& saved) {
  MutexLock own(own_mutex_);
  MutexLock lock(mutex_);
  if (OnLoan()) {
    return absl::FailedPreconditionError("a source cannot resume at another place while a batch is on loan");
  }
  moving_ = true;
  mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::all_of(open_.begin(), open_.end(), [](const Slot* slot) { return slot->claimed == slot->made; });
  });
  moving_ = false;
  Restart();
  mutex_.NotifyAll();
  ASSIGN_OR_RETURN(to_take_, Seek(saved));
  to_open_ = to_take_;
  return absl::OkStatus();
}

void BatchRing::GiveBack(BatchContents& contents) {
  MutexLock lock(mutex_);
  BELFRY_CHECK(OnLoan());
  Slot& slot = static_cast<Slot&>(contents);
  Drop(slot);
  free_.push_back(&slot);
  mutex_.NotifyAll();
}

void BatchRing::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  mutex_.NotifyAll();
}

bool BatchRing::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

Position BatchRing::position() const {
  MutexLock lock(mutex_);
  return to_take_;
}

}  // namespace belfry::data
