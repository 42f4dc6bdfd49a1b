#include "framework/data/prefetcher.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"
#include "framework/base/units.h"

namespace belfry::data {

// One batch of the ring. Its state goes kFree -> kMaking (Open) -> kReady (the last Finish) -> kTaken (Take) -> kFree
// (GiveBack). The Prefetcher's mutex guards all members, but not the tensors in `towers`: while kMaking they belong to
// the threads that make chunks, each to its own rows, and while kTaken to the holder of the Batch. Each hand-over locks
// the mutex, which orders the writes of one owner before the reads of the next.
struct Prefetcher::Slot {
  enum State { kFree, kMaking, kReady, kTaken };
  State state = kFree;
  Position position;
  std::vector<int64_t> indices;
  int64_t claimed = 0, made = 0;  // examples handed to threads, and examples finished
  absl::Status status;
  int64_t failed_at = 0;  // when !status.ok(): the first example of the failed chunk
  // The last batch of an epoch may be smaller; its tensors are made when first needed and then reused.
  std::vector<TowerBatch> whole, remainder;
  std::vector<TowerBatch>* towers = nullptr;
};

namespace {

constexpr int kMaxThreads = 1024, kMaxDepth = 1024;
constexpr absl::string_view kDuringRead = "the reading of a batch";

absl::Status CheckOptions(const Dataset& dataset, const PrefetcherOptions& options) {
  const auto invalid = [](const auto&... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (dataset.size() < 1) return invalid("the dataset has no examples");
  if (dataset.size() >= int64_t{1} << 32) return invalid("the dataset has 2^32 examples or more: ", dataset.size());
  if (options.batch_size < 1) return invalid("batch_size is ", options.batch_size, "; expected at least 1");
  if (options.towers < 1) return invalid("towers is ", options.towers, "; expected at least 1");
  if (options.first_tower < 0 || options.local_towers < 0 || options.first_tower >= options.towers ||
      options.local_towers > options.towers - options.first_tower) {
    return invalid("first_tower is ", options.first_tower, " and local_towers ", options.local_towers,
                   "; expected a part of the ", options.towers, " towers");
  }
  if (options.stride < 1) return invalid("stride is ", options.stride, "; expected at least 1");
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return invalid("threads is ", options.threads, "; expected 0 to ", kMaxThreads);
  }
  if (options.depth < 1 || options.depth > kMaxDepth) {
    return invalid("depth is ", options.depth, "; expected 1 to ", kMaxDepth);
  }
  if (options.epochs < 0) return invalid("epochs is ", options.epochs, "; expected at least 0 (0: endless)");
  const int64_t batches = BatchesPerEpoch(dataset.size(), options.batch_size, options.drop_remainder);
  if (batches == 0) {
    return invalid("batch_size ", options.batch_size, " with drop_remainder leaves no batch from ", dataset.size(),
                   " examples");
  }
  if (options.start.epoch < 0 || options.start.batch < 0 || options.start.batch >= batches) {
    return invalid("start is epoch ", options.start.epoch, ", batch ", options.start.batch, "; an epoch has ", batches,
                   " batches of ", options.batch_size);
  }
  const DType dtype = dataset.spec().dtype;
  if (dtype != DType::kUInt8 && dtype != DType::kFloat32) {
    return invalid("the examples are ", DTypeName(dtype), "; expected uint8 images or float32 features");
  }
  const ImagePolicy& images = options.images;
  if (dtype == DType::kFloat32 &&
      (images.crop != 0 || images.pad != 0 || images.random_flip || images.brightness != 0 ||
       images.contrast_lower != 1 || images.contrast_upper != 1 || images.normalise != ImagePolicy::Normalise::kNone)) {
    return invalid("an image policy was given for examples that are not images");
  }
  return absl::OkStatus();
}

// Small enough that threads share a batch evenly, large enough that locking once a chunk costs nothing noticeable.
int64_t ChunkSize(const PrefetcherOptions& options) {
  if (options.threads == 0) return options.batch_size;
  return std::clamp<int64_t>(options.batch_size / (2 * options.threads), 1, 32);
}

}  // namespace

Batch& Batch::operator=(Batch&& other) noexcept {
  if (this == &other) return *this;
  Release();
  owner_ = std::exchange(other.owner_, nullptr);
  slot_ = other.slot_;
  return *this;
}

// owner_ is cleared before the slot is free again, so a Batch never refers to a slot that others may write.
void Batch::Release() {
  if (owner_ != nullptr) std::exchange(owner_, nullptr)->GiveBack(slot_);
}

absl::Span<const TowerBatch> Batch::towers() const { return *owner_->slots_[slot_]->towers; }
int64_t Batch::examples() const { return static_cast<int64_t>(indices().size()); }
absl::Span<const int64_t> Batch::indices() const { return owner_->slots_[slot_]->indices; }
Position Batch::position() const { return owner_->slots_[slot_]->position; }
Position Batch::next() const { return owner_->After(position()); }
int64_t Batch::step() const { return position().epoch * owner_->batches_per_epoch() + position().batch; }

absl::StatusOr<std::unique_ptr<Prefetcher>> Prefetcher::Create(const Dataset& dataset, PrefetcherOptions options) {
  RETURN_IF_ERROR(CheckOptions(dataset, options));
  std::optional<Augmenter> augmenter;
  Shape input_shape = dataset.spec().shape;
  if (dataset.spec().is_image()) {
    ASSIGN_OR_RETURN(augmenter, Augmenter::Create(dataset.spec(), options.images, options.seed));
    input_shape = augmenter->output_shape();
  }
  std::unique_ptr<Prefetcher> prefetcher(
      new Prefetcher(dataset, std::move(options), std::move(input_shape), std::move(augmenter)));
  prefetcher->threads_.reserve(prefetcher->options_.threads);  // no exception may pass a running thread
  for (int i = 0; i < prefetcher->options_.threads; ++i) {
    const std::string purpose = absl::StrCat("to read data, number ", i + 1, " of ", prefetcher->options_.threads);
    ASSIGN_OR_RETURN(
        prefetcher->threads_.emplace_back(),
        StartThread(purpose, [own = prefetcher.get(), maker = std::make_shared<Maker>(prefetcher->NewMaker())] {
          own->Work(std::move(*maker));
        }));
  }
  return prefetcher;
}

Prefetcher::Prefetcher(const Dataset& dataset, PrefetcherOptions options, Shape input_shape,
                       std::optional<Augmenter> augmenter)
    : dataset_(dataset),
      options_(std::move(options)),
      input_shape_(std::move(input_shape)),
      augmenter_(std::move(augmenter)),
      batches_per_epoch_(BatchesPerEpoch(dataset.size(), options_.batch_size, options_.drop_remainder)),
      chunk_(ChunkSize(options_)),
      to_open_(options_.start),
      to_take_(options_.start),
      own_maker_(NewMaker()) {
  const int slots = options_.depth + 1;
  for (int i = 0; i < slots; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->indices.reserve(std::min(options_.batch_size, dataset.size()));
  }
  order_.resize(dataset.size());
}

// Workers use every other member, so they must be gone before any member is destroyed.
Prefetcher::~Prefetcher() {
  Cancel();
  for (std::thread& thread : threads_) thread.join();
}

// An Augmenter has scratch memory, so each thread works with its own copy and shares nothing but the dataset.
Prefetcher::Maker Prefetcher::NewMaker() const {
  return {augmenter_, std::vector<std::byte>(dataset_.spec().input_bytes())};
}

int Prefetcher::local_towers() const {
  return options_.local_towers == 0 ? options_.towers - options_.first_tower : options_.local_towers;
}

bool Prefetcher::AtEnd(const Position& position) const {
  return options_.epochs > 0 && position.epoch >= options_.epochs;
}

Position Prefetcher::After(const Position& position) const {
  return position.batch + options_.stride < batches_per_epoch_
             ? Position{position.epoch, position.batch + options_.stride}
             : Position{position.epoch + 1, 0};
}

// A worker waits only while the newest batch is wholly claimed and the next one cannot be opened: its slot is in use,
// the data has ended, or an example has failed. Only GiveBack and Cancel can end that, and both notify, so no wake-up
// is lost. Opening a batch need not notify, because a free slot already makes CanClaim true for every worker.
void Prefetcher::Work(Maker maker) {
  while (true) {
    std::optional<Chunk> chunk;
    {
      MutexLock lock(mutex_);
      mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return cancelled_ || CanClaim(); });
      if (cancelled_) return;
      chunk = Claim();
    }
    if (chunk.has_value()) Finish(*chunk, Make(*chunk, maker));
  }
}

// Invariant: taken_ <= opened_ <= taken_ + slots, and of the batches opened only the newest has unclaimed examples,
// because Claim opens the next one only when the newest is used up. So batches are finished nearly in the order they
// are taken, and there is one place to look for work. Batch n may be opened once batch n - slots has been given back:
// its slot is then kFree. Batches given back out of order only delay the opening, never reorder it.
bool Prefetcher::CanClaim() const {
  if (opened_ > 0) {
    const Slot& newest = SlotAt(opened_ - 1);
    if (newest.state == Slot::kMaking && newest.claimed < static_cast<int64_t>(newest.indices.size())) return true;
  }
  return !failed_ && !AtEnd(to_open_) && SlotAt(opened_).state == Slot::kFree;
}

std::optional<Prefetcher::Chunk> Prefetcher::Claim() {
  if (!CanClaim()) return std::nullopt;
  if (opened_ == 0 || SlotAt(opened_ - 1).claimed == static_cast<int64_t>(SlotAt(opened_ - 1).indices.size())) {
    Slot& slot = SlotAt(opened_++);
    // The analysis does not see that Claim's mutex is held.
    const absl::Status opened = CatchOutOfMemory(kDuringRead, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      Open(slot);
      return absl::OkStatus();
    });
    if (!opened.ok()) {
      slot.status = opened;
      slot.state = Slot::kReady;
      failed_ = true;
      mutex_.NotifyAll();
      return std::nullopt;
    }
  }
  Slot& slot = SlotAt(opened_ - 1);
  const int64_t begin = slot.claimed;
  slot.claimed = std::min(begin + chunk_, static_cast<int64_t>(slot.indices.size()));
  return Chunk{&slot, begin, slot.claimed};
}

// The order of an epoch is a function of (seed, epoch), kept until another epoch begins. Computing it holds the mutex
// for one pass over the dataset's indices, once an epoch; the other threads cannot claim meanwhile.
void Prefetcher::Open(Slot& slot) {
  if (order_epoch_ != to_open_.epoch) {
    if (options_.shuffle || order_epoch_ < 0) {
      ShuffleEpoch(options_.seed, to_open_.epoch, absl::MakeSpan(order_));
    }
    if (!options_.shuffle) {
      for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<int64_t>(i);
    }
    order_epoch_ = to_open_.epoch;
  }
  const int64_t begin = to_open_.batch * options_.batch_size;
  const int64_t end = std::min(begin + options_.batch_size, dataset_.size());
  slot.state = Slot::kMaking;
  slot.position = to_open_;
  slot.indices.assign(order_.begin() + begin, order_.begin() + end);
  slot.claimed = slot.made = 0;
  slot.status = absl::OkStatus();
  Deal(slot, end - begin);
  to_open_ = After(to_open_);
}

// Allocates a slot's tensors on their first use. A batch has one of two sizes, whole or remainder, so once the ring has
// gone round nothing is allocated.
void Prefetcher::Deal(Slot& slot, int64_t examples) {
  slot.towers = examples == options_.batch_size ? &slot.whole : &slot.remainder;
  if (!slot.towers->empty()) return;
  for (int i = 0; i < local_towers(); ++i) {
    const TowerRange range = RangeOfTower(examples, options_.towers, options_.first_tower + i);
    slot.towers->push_back({.inputs = Tensor(DType::kFloat32, input_shape_.Insert(0, range.count)),
                            .labels = Tensor(dataset_.spec().label_dtype, Shape{range.count}),
                            .offset = range.begin,
                            .count = range.count});
  }
}

// Runs without the lock. Chunks of a batch are disjoint, so no two threads write the same row; and an example depends
// on its epoch and index only, so the bits do not depend on which thread makes it, or when.
absl::Status Prefetcher::Make(const Chunk& chunk, Maker& maker) {
  return CatchOutOfMemory(kDuringRead, [&]() -> absl::Status {
    for (TowerBatch& tower : *chunk.slot->towers) {
      const int64_t end = std::min(chunk.end, tower.offset + tower.count);
      for (int64_t at = std::max(chunk.begin, tower.offset); at < end; ++at) {
        RETURN_IF_ERROR(MakeExample(*chunk.slot, tower, at, maker));
      }
    }
    return absl::OkStatus();
  });
}

absl::Status Prefetcher::MakeExample(const Slot& slot, TowerBatch& tower, int64_t at, Maker& maker) {
  Example example;
  RETURN_IF_ERROR(dataset_.Read(slot.indices[at], absl::MakeSpan(maker.scratch), example));
  const int64_t row = at - tower.offset, elements = input_shape_.elements();
  if (elements > 0) {
    float* input = tower.inputs.data<float>() + row * elements;
    if (maker.augmenter.has_value()) {
      maker.augmenter->Apply(static_cast<const uint8_t*>(example.input), slot.position.epoch, slot.indices[at], input);
    } else {
      std::memcpy(input, example.input, static_cast<size_t>(elements) * sizeof(float));
    }
  }
  if (tower.labels.dtype() == DType::kInt32) {
    tower.labels.data<int32_t>()[row] = example.label;
  } else {
    tower.labels.data<float>()[row] = example.target;
  }
  return absl::OkStatus();
}

// An error stops the opening of further batches, but every chunk of the batches already open is still made. So each of
// them becomes kReady, Next cannot hang, and the error kept is the one at the lowest example: the same in every run.
void Prefetcher::Finish(const Chunk& chunk, const absl::Status& status) {
  MutexLock lock(mutex_);
  Slot& slot = *chunk.slot;
  if (!status.ok() && (slot.status.ok() || chunk.begin < slot.failed_at)) {
    slot.status = status;
    slot.failed_at = chunk.begin;
    failed_ = true;
  }
  slot.made += chunk.end - chunk.begin;
  if (slot.made == static_cast<int64_t>(slot.indices.size())) {
    slot.state = Slot::kReady;
    mutex_.NotifyAll();
  }
}

bool Prefetcher::CanTake() const { return taken_ < opened_ && SlotAt(taken_).state == Slot::kReady; }

// If slot taken_ is still on loan, only the caller can free it; waiting for it would be a deadlock, so Take reports it.
bool Prefetcher::Ended() const { return cancelled_ || AtEnd(to_take_) || SlotAt(taken_).state == Slot::kTaken; }

absl::StatusOr<Batch> Prefetcher::Next() {
  if (options_.threads == 0) return MakeAndTake();
  MutexLock lock(mutex_);
  mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return Ended() || CanTake(); });
  return Take();
}

absl::StatusOr<Batch> Prefetcher::MakeAndTake() {
  // Held to the end, so that another caller cannot take the batch being made here.
  MutexLock own(own_maker_mutex_);
  while (true) {
    std::optional<Chunk> chunk;
    {
      // One critical section decides between taking and making: a batch on loan may be given back at any moment.
      MutexLock lock(mutex_);
      if (Ended() || CanTake()) return Take();
      chunk = Claim();
    }
    if (chunk.has_value()) Finish(*chunk, Make(*chunk, own_maker_));
  }
}

absl::StatusOr<Batch> Prefetcher::Take() {
  if (cancelled_) return absl::CancelledError("the prefetcher was cancelled");
  if (AtEnd(to_take_))
    return absl::OutOfRangeError(absl::StrCat("end of data after ", Counted(options_.epochs, "epoch")));
  Slot& slot = SlotAt(taken_);
  if (slot.state == Slot::kTaken) {
    return absl::FailedPreconditionError(absl::StrCat("the batch of epoch ", slot.position.epoch, ", batch ",
                                                      slot.position.batch, " is still on loan, and the ring has only ",
                                                      slots_.size(),
                                                      " slots; return the batch first, or increase depth"));
  }
  // to_take_ stays where it is, so every later call returns this error again.
  if (!slot.status.ok()) return slot.status;
  slot.state = Slot::kTaken;
  to_take_ = After(to_take_);
  mutex_.NotifyAll();  // another caller of Next may now have nothing left to wait for
  return Batch(this, static_cast<int>(taken_++ % static_cast<int64_t>(slots_.size())));
}

void Prefetcher::GiveBack(int slot) {
  MutexLock lock(mutex_);
  BELFRY_CHECK(slots_[slot]->state == Slot::kTaken);
  slots_[slot]->state = Slot::kFree;
  mutex_.NotifyAll();
}

void Prefetcher::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  mutex_.NotifyAll();
}

Position Prefetcher::position() const {
  MutexLock lock(mutex_);
  return to_take_;
}

}  // namespace belfry::data
