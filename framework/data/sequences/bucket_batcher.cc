#include "framework/data/sequences/bucket_batcher.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/data/resume.h"
#include "framework/data/resume_impl.h"
#include "framework/data/sequences/sequence_fields_impl.h"
#include "framework/io/checksum.h"

namespace belfry::data {
namespace {

constexpr int64_t kSampledSequences = 64;

absl::Status CheckBatcherOptions(const BucketBatcherOptions& options) {
  const auto invalid = [](const auto&... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (options.batch_size < 1) return invalid("batch_size is ", options.batch_size, "; expected at least 1");
  RETURN_IF_ERROR(CheckTowers(options.towers, options.first_tower, options.local_towers));
  if (options.epochs < 0) return invalid("epochs is ", options.epochs, "; expected at least 0 (0: endless)");
  return absl::OkStatus();
}

std::vector<int64_t> LengthsOf(const SequenceDataset& dataset) {
  std::vector<int64_t> lengths(static_cast<size_t>(dataset.size()));
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = dataset.length(static_cast<int64_t>(i));
  return lengths;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BucketBatcher>> BucketBatcher::Create(const SequenceDataset& dataset,
                                                                     BucketBatcherOptions options) {
  if (dataset.size() < 1) return absl::InvalidArgumentError("the dataset has no examples");
  if (dataset.size() >= int64_t{1} << 32) {
    return absl::InvalidArgumentError(absl::StrCat("the dataset has 2^32 examples or more: ", dataset.size()));
  }
  RETURN_IF_ERROR(CheckBatcherOptions(options));
  ASSIGN_OR_RETURN(std::vector<Tensor> padding, PaddingOf(dataset.fields(), options.padding, options.length_field));
  ASSIGN_OR_RETURN(Buckets buckets, Buckets::Make(LengthsOf(dataset), options.buckets));
  if (buckets.bounds().back() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the last bound of buckets is ", buckets.bounds().back(), "; lengths are int32"));
  }
  const int64_t batches = buckets.BatchesPerEpoch(options.batch_size, options.drop_remainder);
  if (batches == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size ", options.batch_size, " with drop_remainder leaves no batch of any bucket"));
  }
  if (options.start.epoch < 0 || options.start.batch < 0 || options.start.batch >= batches) {
    return absl::InvalidArgumentError(absl::StrCat("start is epoch ", options.start.epoch, ", batch ",
                                                   options.start.batch, "; an epoch has ", batches, " batches"));
  }
  return std::unique_ptr<BucketBatcher>(
      new BucketBatcher(dataset, std::move(options), std::move(buckets), std::move(padding)));
}

BucketBatcher::BucketBatcher(const SequenceDataset& dataset, BucketBatcherOptions options, Buckets buckets,
                             std::vector<Tensor> padding)
    : dataset_(dataset),
      options_(std::move(options)),
      buckets_(std::move(buckets)),
      padding_(std::move(padding)),
      fields_(dataset.fields().begin(), dataset.fields().end()),
      batches_per_epoch_(buckets_.BatchesPerEpoch(options_.batch_size, options_.drop_remainder)),
      next_(options_.start),
      places_(fields_.size()) {
  for (size_t i = 0; i < fields_.size(); ++i) {
    const double value = padding_[i].ToDoubles()[0];
    if (value >= 0 && value < static_cast<double>(fields_[i].categories)) continue;
    fields_[i].categories = 0;
    fields_[i].category_names.clear();
  }
  fields_.push_back({.name = options_.length_field, .dtype = DType::kInt32});
}

int BucketBatcher::local_towers() const {
  return options_.local_towers == 0 ? options_.towers - options_.first_tower : options_.local_towers;
}

std::vector<BatchShape> BucketBatcher::shapes() const {
  const auto sequences = static_cast<size_t>(std::count_if(fields_.begin(), fields_.end(), IsSequence));
  std::vector<BatchShape> shapes;
  for (size_t i = 0; i < buckets_.bounds().size(); ++i) {
    const std::vector<int64_t> extents(sequences, buckets_.bounds()[i]);
    const int64_t size = buckets_.sizes()[i], rest = size % options_.batch_size;
    if (size >= options_.batch_size) shapes.push_back({options_.batch_size, extents});
    if (rest > 0 && !options_.drop_remainder) shapes.push_back({rest, extents});
  }
  return shapes;
}

double BucketBatcher::padding() const {
  const BucketEpoch epoch = buckets_.Deal(options_.seed, 0, false, options_.batch_size, /*drop_remainder=*/false);
  double steps = 0, all = 0;
  for (const BucketBatch& batch : epoch.batches) {
    all += static_cast<double>(batch.count * buckets_.bounds()[batch.bucket]);
    for (int64_t i = 0; i < batch.count; ++i) {
      steps += static_cast<double>(dataset_.length(epoch.order[static_cast<size_t>(batch.begin + i)]));
    }
  }
  return 1 - steps / all;
}

Position BucketBatcher::After(const Position& position) const {
  return position.batch + 1 < batches_per_epoch_ ? Position{position.epoch, position.batch + 1}
                                                 : Position{position.epoch + 1, 0};
}

BucketBatcher::Slot& BucketBatcher::FreeSlot(const BucketBatch& batch) {
  std::vector<std::unique_ptr<Slot>>& slots = slots_[{batch.bucket, batch.count}];
  for (const auto& slot : slots) {
    if (!slot->taken) return *slot;
  }
  auto slot = std::make_unique<Slot>();
  for (int i = 0; i < local_towers(); ++i) {
    const TowerRange range = RangeOfTower(batch.count, options_.towers, options_.first_tower + i);
    TowerBatch& tower = slot->parts.emplace_back();
    tower.offset = range.begin;
    tower.count = range.count;
    for (const Field& field : fields_) {
      Shape shape = field.shape;
      if (IsSequence(field)) shape.set_dim(0, buckets_.bounds()[batch.bucket]);
      tower.fields.emplace_back(field.dtype, shape.Insert(0, range.count));
    }
  }
  slot->towers = slot->parts;
  slot->examples = batch.count;
  return *slots.emplace_back(std::move(slot));
}

absl::Status BucketBatcher::MakeExample(TowerBatch& tower, int64_t row, int64_t index, int64_t steps) {
  const int64_t length = dataset_.length(index);
  const size_t fields = fields_.size() - 1;
  for (size_t i = 0; i < fields; ++i) {
    const auto bytes = static_cast<int64_t>(tower.fields[i].bytes()) / tower.count;
    places_[i] = static_cast<std::byte*>(tower.fields[i].raw()) + row * bytes;
  }
  RETURN_IF_ERROR(dataset_.Read(index, Example(absl::MakeConstSpan(places_).first(fields))));
  for (size_t i = 0; i < fields; ++i) {
    if (!IsSequence(fields_[i])) continue;
    const size_t size = SizeOf(fields_[i].dtype);
    const auto elements = fields_[i].shape.elements(1, fields_[i].shape.rank());
    for (int64_t at = length * elements; at < steps * elements; ++at) {
      std::memcpy(places_[i] + static_cast<size_t>(at) * size, padding_[i].raw(), size);
    }
  }
  tower.fields.back().data<int32_t>()[row] = static_cast<int32_t>(length);
  return absl::OkStatus();
}

absl::Status BucketBatcher::Make(const BucketBatch& batch, Slot& slot) {
  for (TowerBatch& tower : slot.parts) {
    for (int64_t row = 0; row < tower.count; ++row) {
      const int64_t index = epoch_.order[static_cast<size_t>(batch.begin + tower.offset + row)];
      RETURN_IF_ERROR(MakeExample(tower, row, index, buckets_.bounds()[batch.bucket]));
    }
  }
  const auto first = epoch_.order.begin() + batch.begin;
  slot.indices.assign(first, first + batch.count);
  return absl::OkStatus();
}

absl::StatusOr<Batch> BucketBatcher::Next() {
  if (options_.epochs > 0 && next_.epoch >= options_.epochs) {
    return absl::OutOfRangeError(absl::StrCat("end of data after ", Counted(options_.epochs, "epoch")));
  }
  if (dealt_ != next_.epoch) {
    epoch_ = buckets_.Deal(options_.seed, next_.epoch, options_.shuffle, options_.batch_size, options_.drop_remainder);
    dealt_ = next_.epoch;
  }
  const BucketBatch& batch = epoch_.batches[static_cast<size_t>(next_.batch)];
  Slot& slot = FreeSlot(batch);
  RETURN_IF_ERROR(Make(batch, slot));
  slot.position = next_;
  slot.step = next_.epoch * batches_per_epoch_ + next_.batch;
  next_ = slot.next = After(next_);
  slot.taken = true;
  ++on_loan_;
  return Batch(*this, slot);
}

void BucketBatcher::GiveBack(BatchContents& contents) {
  Slot& slot = static_cast<Slot&>(contents);
  BELFRY_CHECK(slot.taken);
  slot.taken = false;
  --on_loan_;
}

void BucketBatcher::PutPosition(Position next, io::Metadata& metadata) const {
  data::PutPosition({.batch_size = options_.batch_size,
                     .seed = options_.seed,
                     .shuffle = options_.shuffle,
                     .drop_remainder = options_.drop_remainder},
                    dataset_.size(), next, metadata);
  metadata["data.buckets"] = absl::StrJoin(buckets_.bounds(), ",");
}

absl::Status BucketBatcher::Resume(const io::Metadata& saved) {
  if (on_loan_ > 0) {
    return absl::FailedPreconditionError("a batcher cannot resume at another place while a batch is on loan");
  }
  io::Metadata now;
  PutPosition(next_, now);
  Position start;
  ASSIGN_OR_RETURN(start.epoch, TakeCount(saved, kEpochKey, 0));
  ASSIGN_OR_RETURN(start.batch, TakeCount(saved, kBatchKey, 0));
  for (const auto& [key, value] : now) {
    if (key != kEpochKey && key != kBatchKey) RETURN_IF_ERROR(CheckSameSetting(saved, key, value));
  }
  RETURN_IF_ERROR(CheckWithinEpoch(start.batch, batches_per_epoch_));
  next_ = start;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> BucketBatcher::Settings() const {
  const std::vector<int64_t> lengths = LengthsOf(dataset_);
  std::string sampled(reinterpret_cast<const char*>(lengths.data()), lengths.size() * sizeof(lengths[0]));
  const int64_t count = std::min(kSampledSequences, dataset_.size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = i * dataset_.size() / count;
    std::vector<Tensor> example;
    std::vector<std::byte*> places;
    for (const Field& field : dataset_.fields()) {
      Shape shape = field.shape;
      if (IsSequence(field)) shape.set_dim(0, lengths[static_cast<size_t>(index)]);
      example.emplace_back(field.dtype, shape);
      places.push_back(static_cast<std::byte*>(example.back().raw()));
    }
    RETURN_IF_ERROR(dataset_.Read(index, Example(places)));
    for (const Tensor& field : example) sampled.append(static_cast<const char*>(field.raw()), field.bytes());
  }
  return std::vector<std::string>{absl::StrCat("data seed=", options_.seed),
                                  absl::StrCat("drop_remainder=", options_.drop_remainder),
                                  absl::StrCat("buckets=", absl::StrJoin(buckets_.bounds(), ",")),
                                  absl::StrCat("data: ", FieldsText(dataset_.fields()), "; ", dataset_.size(),
                                               " examples, checksum of all lengths and ", count, " of them ",
                                               io::ChecksumText(sampled.data(), sampled.size()))};
}

}  // namespace belfry::data
