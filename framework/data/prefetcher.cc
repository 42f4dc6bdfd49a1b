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
#include "framework/data/mixup.h"
#include "framework/data/resume.h"

namespace belfry::data {

// One batch of the ring. Its state goes kFree -> kMaking (Open) -> kReady (the last Finish) -> kTaken (Take) -> kFree
// (GiveBack). The Prefetcher's mutex guards all members, but not the tensors in `parts`: while kMaking they belong to
// the threads that make chunks, each to its own rows, and while kTaken to the holder of the Batch. Each hand-over locks
// the mutex, which orders the writes of one owner before the reads of the next.
struct Prefetcher::Slot : BatchContents {
  enum State { kFree, kMaking, kReady, kTaken };
  State state = kFree;
  int64_t claimed = 0, made = 0;  // examples handed to threads, and examples finished
  absl::Status status;
  int64_t failed_at = 0;  // when !status.ok(): the first example of the failed chunk
  // For MixUp, the position of each example's partner, and the weight of the example itself.
  std::vector<int64_t> partners;
  double weight = 1;
  // The last batch of an epoch may be smaller; its tensors are made when first needed and then reused.
  std::vector<TowerBatch> whole, remainder;
  std::vector<TowerBatch>* parts = nullptr;
};

namespace {

constexpr int kMaxThreads = 1024, kMaxDepth = 1024;
constexpr double kMaxMixup = 1000;
constexpr absl::string_view kDuringRead = "the reading of a batch";

absl::Status CheckOptions(const Dataset& dataset, const PrefetcherOptions& options) {
  const auto invalid = [](const auto&... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (dataset.size() < 1) return invalid("the dataset has no examples");
  if (dataset.size() >= int64_t{1} << 32) return invalid("the dataset has 2^32 examples or more: ", dataset.size());
  if (options.batch_size < 1) return invalid("batch_size is ", options.batch_size, "; expected at least 1");
  RETURN_IF_ERROR(CheckTowers(options.towers, options.first_tower, options.local_towers));
  if (options.augment == AugmentBy::kStepFromResident && dataset.varies()) {
    return invalid("examples differ from epoch to epoch, so that their images cannot stay in the memory of a device");
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
  if (options.mixup > 0 && options.augment != AugmentBy::kWorkers) {
    return invalid("mixup is ", options.mixup, ", which needs AugmentBy::kWorkers: they mix the images");
  }
  if (!(options.mixup >= 0 && options.mixup <= kMaxMixup)) {
    return invalid("mixup is ", options.mixup, "; expected 0 (none) to ", kMaxMixup);
  }
  RETURN_IF_ERROR(CheckFields(dataset.fields()));
  for (const auto& [name, policy] : options.images) {
    const absl::Status known = FindField(dataset.fields(), name).status();
    if (!known.ok()) return invalid("there is an image policy for '", name, "'. ", known.message());
  }
  return absl::OkStatus();
}

// Small enough that threads share a batch evenly, large enough that locking once a chunk costs nothing noticeable.
int64_t ChunkSize(const PrefetcherOptions& options) {
  if (options.threads == 0) return options.batch_size;
  return std::clamp<int64_t>(options.batch_size / (2 * options.threads), 1, 32);
}

// The place of field `i` of the example at position `at` of the batch, which is in this tower.
std::byte* RowOf(TowerBatch& tower, size_t i, int64_t at) {
  Tensor& field = tower.fields[i];
  const auto row = static_cast<size_t>(at - tower.offset), rows = static_cast<size_t>(tower.count);
  return static_cast<std::byte*>(field.raw()) + row * (field.bytes() / rows);
}

// The images of field `i` of all examples.
absl::StatusOr<Tensor> ReadAll(const Dataset& dataset, size_t i) {
  const Field& images = dataset.fields()[i];
  ASSIGN_OR_RETURN(Tensor all, Tensor::Allocate(images.dtype, images.shape.Insert(0, dataset.size())));
  auto* to = static_cast<std::byte*>(all.raw());
  for (int64_t at = 0; at < dataset.size(); ++at, to += images.bytes()) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> example, ReadExample(dataset, at));
    std::memcpy(to, example[i].raw(), images.bytes());
  }
  return all;
}

// Field `i`, of images that the step makes.
absl::StatusOr<Field> FieldInStep(const Dataset& dataset, size_t i, const ImagePolicy& policy, const Shape& made,
                                  const PrefetcherOptions& options) {
  Field field = dataset.fields()[i];
  auto in_step = std::make_shared<ImagesInStep>();
  in_step->policy = policy;
  in_step->seed = options.seed;
  in_step->shape = made;
  if (options.augment == AugmentBy::kStepFromResident) {
    ASSIGN_OR_RETURN(in_step->resident, ReadAll(dataset, i));
    field.shape = {0};
  }
  field.in_step = std::move(in_step);
  return field;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Prefetcher>> Prefetcher::Create(const Dataset& dataset, PrefetcherOptions options) {
  RETURN_IF_ERROR(CheckOptions(dataset, options));
  std::vector<Field> fields(dataset.fields().begin(), dataset.fields().end());
  std::vector<std::optional<Augmenter>> augmenters(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto policy = options.images.find(fields[i].name);
    if (policy == options.images.end()) continue;
    ASSIGN_OR_RETURN(Augmenter augmenter, Augmenter::Create(fields[i], policy->second, options.seed));
    const Shape& made = augmenter.output_shape();
    if (options.augment == AugmentBy::kWorkers) {
      fields[i] = {.name = fields[i].name, .dtype = DType::kFloat32, .shape = made};
      augmenters[i] = std::move(augmenter);
    } else {
      ASSIGN_OR_RETURN(fields[i], FieldInStep(dataset, i, policy->second, made, options));
    }
  }
  if (options.augment != AugmentBy::kWorkers) {
    fields.push_back({.name = kPositionField, .dtype = DType::kInt64, .shape = {2}});
    RETURN_IF_ERROR(CheckFields(fields));
  }
  if (options.mixup > 0) {
    const std::vector<Field> added = MixtureFields(fields);
    fields.insert(fields.end(), added.begin(), added.end());
    RETURN_IF_ERROR(CheckFields(fields));
  }
  std::unique_ptr<Prefetcher> prefetcher(
      new Prefetcher(dataset, std::move(options), std::move(fields), std::move(augmenters)));
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

Prefetcher::Prefetcher(const Dataset& dataset, PrefetcherOptions options, std::vector<Field> fields,
                       std::vector<std::optional<Augmenter>> augmenters)
    : dataset_(dataset),
      options_(std::move(options)),
      fields_(std::move(fields)),
      augmenters_(std::move(augmenters)),
      batches_per_epoch_(BatchesPerEpoch(dataset.size(), options_.batch_size, options_.drop_remainder)),
      chunk_(ChunkSize(options_)),
      to_open_(options_.start),
      to_take_(options_.start),
      own_maker_(NewMaker()) {
  const int slots = options_.depth + 1;
  for (int i = 0; i < slots; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->indices.reserve(std::min(options_.batch_size, dataset.size()));
    if (options_.mixup > 0) slots_.back()->partners.reserve(std::min(options_.batch_size, dataset.size()));
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
  const size_t fields = augmenters_.size();
  Maker maker{.augmenters = augmenters_,
              .images = std::vector<std::vector<std::byte>>(fields),
              .places = std::vector<std::byte*>(fields),
              .partner = std::vector<std::vector<float>>(fields),
              .outputs = std::vector<std::byte*>(fields),
              .partner_outputs = std::vector<std::byte*>(fields)};
  for (size_t i = 0; i < fields; ++i) {
    if (fields_[i].bytes() != dataset_.fields()[i].bytes() || augmenters_[i].has_value()) {
      maker.images[i].resize(dataset_.fields()[i].bytes());
    }
    if (options_.mixup == 0 || fields_[i].dtype != DType::kFloat32) continue;
    maker.partner[i].resize(fields_[i].shape.elements());
    maker.partner_outputs[i] = reinterpret_cast<std::byte*>(maker.partner[i].data());
  }
  return maker;
}

int64_t Prefetcher::last_batch_size() const {
  return LastBatchSize(dataset_.size(), options_.batch_size, options_.drop_remainder);
}

int Prefetcher::local_towers() const {
  return options_.local_towers == 0 ? options_.towers - options_.first_tower : options_.local_towers;
}

void Prefetcher::PutPosition(Position next, io::Metadata& metadata) const {
  data::PutPosition(options_, dataset_.size(), next, metadata);
}

absl::StatusOr<std::vector<std::string>> Prefetcher::Settings() const {
  ASSIGN_OR_RETURN(const std::string data, DataLine(dataset_));
  return std::vector<std::string>{absl::StrCat("data seed=", options_.seed),
                                  absl::StrCat("drop_remainder=", options_.drop_remainder),
                                  absl::StrCat("mixup=", options_.mixup), data};
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
  if (moving_) return false;
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
  slot.next = After(to_open_);
  slot.step = to_open_.epoch * batches_per_epoch_ + to_open_.batch;
  slot.examples = end - begin;
  slot.indices.assign(order_.begin() + begin, order_.begin() + end);
  if (options_.mixup > 0) {
    slot.partners.resize(slot.indices.size());
    slot.weight = DrawMixture(options_.seed, options_.mixup, slot.step, absl::MakeSpan(slot.partners));
  }
  slot.claimed = slot.made = 0;
  slot.status = absl::OkStatus();
  Deal(slot, end - begin);
  to_open_ = After(to_open_);
}

// Allocates a slot's tensors on their first use. A batch has one of two sizes, whole or remainder, so once the ring has
// gone round nothing is allocated.
void Prefetcher::Deal(Slot& slot, int64_t examples) {
  slot.parts = examples == options_.batch_size ? &slot.whole : &slot.remainder;
  for (int i = static_cast<int>(slot.parts->size()); i < local_towers(); ++i) {
    const TowerRange range = RangeOfTower(examples, options_.towers, options_.first_tower + i);
    TowerBatch& tower = slot.parts->emplace_back();
    tower.offset = range.begin;
    tower.count = range.count;
    for (const Field& field : fields_) tower.fields.emplace_back(field.dtype, field.shape.Insert(0, range.count));
  }
  slot.towers = *slot.parts;
}

// Runs without the lock. Chunks of a batch are disjoint, so no two threads write the same row; and an example depends
// on its epoch and index only, so the bits do not depend on which thread makes it, or when.
absl::Status Prefetcher::Make(const Chunk& chunk, Maker& maker) {
  return CatchOutOfMemory(kDuringRead, [&]() -> absl::Status {
    for (TowerBatch& tower : *chunk.slot->parts) {
      const int64_t end = std::min(chunk.end, tower.offset + tower.count);
      for (int64_t at = std::max(chunk.begin, tower.offset); at < end; ++at) {
        RETURN_IF_ERROR(MakeExample(*chunk.slot, tower, at, maker));
      }
    }
    return absl::OkStatus();
  });
}

absl::Status Prefetcher::ReadTo(int64_t index, int64_t epoch, absl::Span<std::byte* const> outputs, Maker& maker) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    maker.places[i] = maker.images[i].empty() ? outputs[i] : maker.images[i].data();
  }
  const Variation variation{.seed = options_.seed, .epoch = epoch};
  RETURN_IF_ERROR(ReadInto(dataset_, index, Example(maker.places), variation));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!maker.augmenters[i].has_value()) continue;
    maker.augmenters[i]->Apply(reinterpret_cast<const uint8_t*>(maker.places[i]), epoch, index,
                               reinterpret_cast<float*>(outputs[i]));
  }
  return absl::OkStatus();
}

absl::Status Prefetcher::MakeExample(const Slot& slot, TowerBatch& tower, int64_t at, Maker& maker) {
  for (size_t i = 0; i < maker.outputs.size(); ++i) maker.outputs[i] = RowOf(tower, i, at);
  RETURN_IF_ERROR(ReadTo(slot.indices[at], slot.position.epoch, maker.outputs, maker));
  if (options_.augment != AugmentBy::kWorkers) {
    auto* const position = reinterpret_cast<int64_t*>(RowOf(tower, fields_.size() - 1, at));
    position[0] = slot.position.epoch;
    position[1] = slot.indices[at];
  }
  return options_.mixup > 0 ? MakeMixture(slot, tower, at, maker) : absl::OkStatus();
}

// Makes the partner once more, which is cheaper than waiting for the thread that makes it.
absl::Status Prefetcher::MakeMixture(const Slot& slot, TowerBatch& tower, int64_t at, Maker& maker) {
  size_t added = maker.outputs.size();
  for (size_t i = 0; i < maker.outputs.size(); ++i) {
    if (fields_[i].dtype != DType::kFloat32) {
      maker.partner_outputs[i] = RowOf(tower, added++, at);
    }
  }
  RETURN_IF_ERROR(ReadTo(slot.indices[slot.partners[at]], slot.position.epoch, maker.partner_outputs, maker));
  const auto weight = static_cast<float>(slot.weight);
  *reinterpret_cast<float*>(RowOf(tower, added, at)) = weight;
  for (size_t i = 0; i < maker.outputs.size(); ++i) {
    auto* const x = reinterpret_cast<float*>(maker.outputs[i]);
    for (size_t k = 0; k < maker.partner[i].size(); ++k) x[k] = weight * x[k] + (1 - weight) * maker.partner[i][k];
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
  const bool whole = slot.made == static_cast<int64_t>(slot.indices.size());
  if (whole) slot.state = Slot::kReady;
  if (whole || moving_) mutex_.NotifyAll();
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
  ++taken_;
  return Batch(*this, slot);
}

// True if no thread is making a chunk.
bool Prefetcher::Idle() const {
  return std::all_of(slots_.begin(), slots_.end(), [](const auto& slot) { return slot->claimed == slot->made; });
}

absl::Status Prefetcher::Resume(const io::Metadata& saved) {
  ASSIGN_OR_RETURN(const Position start, TakePosition(saved, options_, dataset_.size()));
  MutexLock lock(mutex_);
  const auto taken = [](const auto& slot) { return slot->state == Slot::kTaken; };
  if (std::any_of(slots_.begin(), slots_.end(), taken)) {
    return absl::FailedPreconditionError("a prefetcher cannot resume at another place while a batch is on loan");
  }
  moving_ = true;
  mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return Idle(); });
  for (const auto& slot : slots_) {
    slot->state = Slot::kFree;
    slot->claimed = slot->made = 0;
    slot->status = absl::OkStatus();
  }
  opened_ = taken_ = 0;
  to_open_ = to_take_ = start;
  failed_ = moving_ = false;
  mutex_.NotifyAll();
  return absl::OkStatus();
}

void Prefetcher::GiveBack(BatchContents& contents) {
  MutexLock lock(mutex_);
  Slot& slot = static_cast<Slot&>(contents);
  BELFRY_CHECK(slot.state == Slot::kTaken);
  slot.state = Slot::kFree;
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
