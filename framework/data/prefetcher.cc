#include "framework/data/prefetcher.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/mixup.h"

namespace belfry::data {

// A batch of mixtures: the position of each example's partner, and the weight of the example itself.
struct Prefetcher::Mixture : Slot {
  std::vector<int64_t> partners;
  double weight = 1;
};

namespace {

constexpr double kMaxMixup = 1000;

absl::Status CheckOptions(const Dataset& dataset, const PrefetcherOptions& options) {
  const auto invalid = [](const auto&... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (options.augment == AugmentBy::kStepFromResident && dataset.varies()) {
    return invalid("examples differ from epoch to epoch, so that their images cannot stay in the memory of a device");
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
  RETURN_IF_ERROR(CheckDealing(options, dataset.size()));
  RETURN_IF_ERROR(CheckStart(options, BatchesPerEpoch(dataset.size(), options.batch_size, options.drop_remainder),
                             absl::StrCat("from ", dataset.size(), " examples")));
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
  std::unique_ptr<Prefetcher> prefetcher(new Prefetcher(dataset, std::move(options), std::move(fields), augmenters));
  RETURN_IF_ERROR(prefetcher->Start());
  return prefetcher;
}

Prefetcher::Prefetcher(const Dataset& dataset, PrefetcherOptions options, std::vector<Field> fields,
                       const std::vector<std::optional<Augmenter>>& augmenters)
    : ExampleRing(options, /*rules=*/{}, std::move(fields), dataset.size(),
                  BatchesPerEpoch(dataset.size(), options.batch_size, options.drop_remainder)),
      dataset_(dataset),
      order_(dataset.size()) {
  for (int i = 0; i < std::max(1, options_.threads); ++i) makers_.push_back(NewMaker(augmenters));
  std::iota(order_.begin(), order_.end(), 0);
}

// An Augmenter has scratch memory, so each worker has its own copy and shares nothing but the dataset.
Prefetcher::Maker Prefetcher::NewMaker(const std::vector<std::optional<Augmenter>>& augmenters) const {
  const size_t fields = augmenters.size();
  Maker maker{.augmenters = augmenters,
              .images = std::vector<std::vector<std::byte>>(fields),
              .places = std::vector<std::byte*>(fields),
              .partner = std::vector<std::vector<float>>(fields),
              .outputs = std::vector<std::byte*>(fields),
              .partner_outputs = std::vector<std::byte*>(fields)};
  for (size_t i = 0; i < fields; ++i) {
    if (fields_[i].bytes() != dataset_.fields()[i].bytes() || augmenters[i].has_value()) {
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

absl::StatusOr<std::vector<std::string>> Prefetcher::Settings() const {
  ASSIGN_OR_RETURN(const std::string data, DataLine(dataset_));
  return std::vector<std::string>{absl::StrCat("data seed=", options_.seed),
                                  absl::StrCat("drop_remainder=", options_.drop_remainder),
                                  absl::StrCat("mixup=", options_.mixup), data};
}

std::unique_ptr<BatchRing::Slot> Prefetcher::NewSlot() const { return std::make_unique<Mixture>(); }

// The order of an epoch is a function of (seed, epoch), kept until another epoch begins. Computing it holds the mutex
// for one pass over the dataset's indices, once an epoch; the other threads cannot claim meanwhile.
void Prefetcher::Open(Slot& slot) {
  if (options_.shuffle && order_epoch_ != slot.position.epoch) {
    ShuffleEpoch(options_.seed, slot.position.epoch, absl::MakeSpan(order_));
    order_epoch_ = slot.position.epoch;
  }
  const auto indices =
      absl::MakeConstSpan(order_).subspan(slot.position.batch * options_.batch_size, options_.batch_size);
  const bool whole = static_cast<int64_t>(indices.size()) == options_.batch_size;
  Deal(slot, whole ? 0 : 1, indices);
  if (options_.mixup == 0) return;
  Mixture& mixture = static_cast<Mixture&>(slot);
  mixture.partners.resize(indices.size());
  mixture.weight = DrawMixture(options_.seed, options_.mixup, slot.step, absl::MakeSpan(mixture.partners));
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

// An example depends on its epoch and index only, so the bits do not depend on which worker makes it, or when.
absl::Status Prefetcher::MakeExample(const Slot& slot, TowerBatch& tower, int64_t at, int worker) {
  Maker& maker = makers_[worker];
  for (size_t i = 0; i < maker.outputs.size(); ++i) maker.outputs[i] = RowOf(tower, i, at);
  RETURN_IF_ERROR(ReadTo(slot.indices[at], slot.position.epoch, maker.outputs, maker));
  if (options_.augment != AugmentBy::kWorkers) {
    auto* const position = reinterpret_cast<int64_t*>(RowOf(tower, fields_.size() - 1, at));
    position[0] = slot.position.epoch;
    position[1] = slot.indices[at];
  }
  return options_.mixup > 0 ? MakeMixture(static_cast<const Mixture&>(slot), tower, at, maker) : absl::OkStatus();
}

// Makes the partner once more, which is cheaper than waiting for the thread that makes it.
absl::Status Prefetcher::MakeMixture(const Mixture& slot, TowerBatch& tower, int64_t at, Maker& maker) {
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

}  // namespace belfry::data
