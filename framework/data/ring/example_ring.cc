#include "framework/data/ring/example_ring.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/resume.h"
#include "framework/data/resume_impl.h"

namespace belfry::data {

absl::Status ExampleRing::CheckDealing(const PrefetcherOptions& options, int64_t examples) {
  const auto invalid = [](const auto&... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (examples < 1) return invalid("the dataset has no examples");
  if (examples >= int64_t{1} << 32) return invalid("the dataset has 2^32 examples or more: ", examples);
  if (options.batch_size < 1) return invalid("batch_size is ", options.batch_size, "; expected at least 1");
  RETURN_IF_ERROR(CheckTowers(options.towers, options.first_tower, options.local_towers));
  if (options.stride < 1) return invalid("stride is ", options.stride, "; expected at least 1");
  if (options.epochs < 0) return invalid("epochs is ", options.epochs, "; expected at least 0 (0: endless)");
  return CheckRing(options);
}

absl::Status ExampleRing::CheckStart(const PrefetcherOptions& options, int64_t batches, absl::string_view of) {
  const auto invalid = [](const auto&... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (batches == 0) {
    return invalid("batch_size ", options.batch_size, " with drop_remainder leaves no batch ", of);
  }
  if (options.start.epoch < 0 || options.start.batch < 0 || options.start.batch >= batches) {
    return invalid("start is epoch ", options.start.epoch, ", batch ", options.start.batch, "; an epoch has ", batches,
                   " batches of ", options.batch_size);
  }
  return absl::OkStatus();
}

ExampleRing::ExampleRing(PrefetcherOptions options, Rules rules, std::vector<Field> fields, int64_t examples,
                         int64_t batches)
    : BatchRing(std::move(options), rules),
      fields_(std::move(fields)),
      examples_(examples),
      batches_per_epoch_(batches) {}

int ExampleRing::local_towers() const {
  return options_.local_towers == 0 ? options_.towers - options_.first_tower : options_.local_towers;
}

void ExampleRing::PutPosition(Position next, io::Metadata& metadata) const {
  data::PutPosition(options_, examples_, next, metadata);
}

absl::StatusOr<Position> ExampleRing::Seek(const io::Metadata& saved) {
  io::Metadata now;
  PutPosition({}, now);
  return PositionIn(saved, now, batches_per_epoch_);
}

void ExampleRing::Deal(Slot& slot, size_t shape, absl::Span<const int64_t> indices, int64_t extent) {
  slot.indices.assign(indices.begin(), indices.end());
  slot.examples = slot.pieces = static_cast<int64_t>(indices.size());
  if (slot.shapes.size() <= shape) slot.shapes.resize(shape + 1);
  if (slot.shapes[shape].empty()) {
    std::vector<TowerBatch> parts;
    for (int i = 0; i < local_towers(); ++i) {
      const TowerRange range = RangeOfTower(slot.examples, options_.towers, options_.first_tower + i);
      TowerBatch& tower = parts.emplace_back();
      tower.offset = range.begin;
      tower.count = range.count;
      for (const Field& field : fields_) {
        Shape of_example = field.shape;
        if (of_example.rank() > 0 && of_example[0] == Shape::kUnknown) of_example.set_dim(0, extent);
        tower.fields.emplace_back(field.dtype, of_example.Insert(0, range.count));
      }
    }
    slot.shapes[shape] = std::move(parts);
  }
  slot.parts = &slot.shapes[shape];
  slot.towers = *slot.parts;
}

absl::Status ExampleRing::Fill(Slot& slot, int64_t begin, int64_t end, int worker) {
  for (TowerBatch& tower : *slot.parts) {
    const int64_t last = std::min(end, tower.offset + tower.count);
    for (int64_t at = std::max(begin, tower.offset); at < last; ++at) {
      RETURN_IF_ERROR(MakeExample(slot, tower, at, worker));
    }
  }
  return absl::OkStatus();
}

}  // namespace belfry::data
