#include "framework/data/sequences/bucket_batcher.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/data/sequences/sequence_fields_impl.h"
#include "framework/io/checksum.h"

namespace belfry::data {
namespace {

constexpr int64_t kSampledSequences = 64;

PrefetcherOptions OptionsOf(const BucketBatcherOptions& options) {
  return {.batch_size = options.batch_size,
          .towers = options.towers,
          .first_tower = options.first_tower,
          .local_towers = options.local_towers,
          .seed = options.seed,
          .shuffle = options.shuffle,
          .drop_remainder = options.drop_remainder,
          .epochs = options.epochs,
          .start = options.start,
          .threads = 0};
}

std::vector<int64_t> LengthsOf(const SequenceDataset& dataset) {
  std::vector<int64_t> lengths(static_cast<size_t>(dataset.size()));
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = dataset.length(static_cast<int64_t>(i));
  return lengths;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BucketBatcher>> BucketBatcher::Create(const SequenceDataset& dataset,
                                                                     BucketBatcherOptions options) {
  RETURN_IF_ERROR(CheckDealing(OptionsOf(options), dataset.size()));
  ASSIGN_OR_RETURN(std::vector<Tensor> padding, PaddingOf(dataset.fields(), options.padding, options.length_field));
  ASSIGN_OR_RETURN(Buckets buckets, Buckets::Make(LengthsOf(dataset), options.buckets));
  if (buckets.bounds().back() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the last bound of buckets is ", buckets.bounds().back(), "; lengths are int32"));
  }
  RETURN_IF_ERROR(CheckStart(OptionsOf(options), buckets.BatchesPerEpoch(options.batch_size, options.drop_remainder),
                             "of any bucket"));
  std::vector<Field> fields(dataset.fields().begin(), dataset.fields().end());
  for (size_t i = 0; i < fields.size(); ++i) {
    const double value = padding[i].ToDoubles()[0];
    if (value >= 0 && value < static_cast<double>(fields[i].categories)) continue;
    fields[i].categories = 0;
    fields[i].category_names.clear();
  }
  fields.push_back({.name = options.length_field, .dtype = DType::kInt32});
  std::unique_ptr<BucketBatcher> batcher(
      new BucketBatcher(dataset, OptionsOf(options), std::move(fields), std::move(buckets), std::move(padding)));
  RETURN_IF_ERROR(batcher->Start());
  return batcher;
}

BucketBatcher::BucketBatcher(const SequenceDataset& dataset, PrefetcherOptions options, std::vector<Field> fields,
                             Buckets buckets, std::vector<Tensor> padding)
    : ExampleRing(options, {.grows = true, .retries = true}, std::move(fields), dataset.size(),
                  buckets.BatchesPerEpoch(options.batch_size, options.drop_remainder)),
      dataset_(dataset),
      buckets_(std::move(buckets)),
      padding_(std::move(padding)),
      places_(fields_.size() - 1) {}

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

void BucketBatcher::Open(Slot& slot) {
  if (dealt_ != slot.position.epoch) {
    epoch_ = buckets_.Deal(options_.seed, slot.position.epoch, options_.shuffle, options_.batch_size,
                           options_.drop_remainder);
    dealt_ = slot.position.epoch;
  }
  const BucketBatch& batch = epoch_.batches[static_cast<size_t>(slot.position.batch)];
  Deal(slot, 2 * batch.bucket + (batch.count == options_.batch_size ? 0 : 1),
       absl::MakeConstSpan(epoch_.order).subspan(static_cast<size_t>(batch.begin), static_cast<size_t>(batch.count)),
       buckets_.bounds()[batch.bucket]);
}

absl::Status BucketBatcher::MakeExample(const Slot& slot, TowerBatch& tower, int64_t at, int /*worker*/) {
  const int64_t index = slot.indices[static_cast<size_t>(at)], length = dataset_.length(index);
  for (size_t i = 0; i < places_.size(); ++i) places_[i] = RowOf(tower, i, at);
  RETURN_IF_ERROR(dataset_.Read(index, Example(places_)));
  for (size_t i = 0; i < places_.size(); ++i) {
    if (!IsSequence(fields_[i])) continue;
    const size_t size = SizeOf(fields_[i].dtype);
    const int64_t elements = fields_[i].shape.elements(1, fields_[i].shape.rank());
    const int64_t all = tower.fields[i].shape()[1] * elements;
    for (int64_t to = length * elements; to < all; ++to) {
      std::memcpy(places_[i] + static_cast<size_t>(to) * size, padding_[i].raw(), size);
    }
  }
  *reinterpret_cast<int32_t*>(RowOf(tower, places_.size(), at)) = static_cast<int32_t>(length);
  return absl::OkStatus();
}

void BucketBatcher::PutPosition(Position next, io::Metadata& metadata) const {
  ExampleRing::PutPosition(next, metadata);
  metadata["data.buckets"] = absl::StrJoin(buckets_.bounds(), ",");
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
