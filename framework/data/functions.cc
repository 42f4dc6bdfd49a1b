#include "framework/data/functions.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/data/ring/example_ring.h"

namespace belfry::data {
namespace {

// Batches of a generator. A batch is one piece, drawn into memory for all towers of all processes, since its end may
// change the parts of the towers.
class GeneratedBatches final : public ExampleRing {
 public:
  static absl::StatusOr<std::unique_ptr<BatchSource>> Create(std::vector<Field> fields, const GeneratorOptions& options,
                                                             Generator generate) {
    RETURN_IF_ERROR(CheckFields(fields));
    if (generate == nullptr) return absl::InvalidArgumentError("FromGenerator was given no function");
    if (options.examples_per_epoch < 0 || options.depth < 0) {
      return absl::InvalidArgumentError(absl::StrCat("examples_per_epoch is ", options.examples_per_epoch,
                                                     " and depth ", options.depth, "; expected at least 0"));
    }
    const PrefetcherOptions ring{.batch_size = options.batch_size,
                                 .towers = options.towers,
                                 .first_tower = options.first_tower,
                                 .local_towers = options.local_towers,
                                 .shuffle = false,
                                 .threads = options.depth > 0 ? 1 : 0,
                                 .depth = std::max(1, options.depth)};
    RETURN_IF_ERROR(CheckDealing(ring, std::max<int64_t>(1, options.examples_per_epoch)));
    const int64_t examples = options.examples_per_epoch > 0 ? options.examples_per_epoch : options.batch_size;
    std::vector<Tensor> drawn;
    for (const Field& field : fields) {
      std::vector<int64_t> extents = {options.batch_size};
      extents.insert(extents.end(), field.shape.dims().begin(), field.shape.dims().end());
      ASSIGN_OR_RETURN(const Shape shape, Shape::Make(extents));
      ASSIGN_OR_RETURN(drawn.emplace_back(), Tensor::Allocate(field.dtype, shape));
    }
    std::unique_ptr<GeneratedBatches> source(
        new GeneratedBatches(ring, std::move(fields), examples, std::move(generate), std::move(drawn)));
    RETURN_IF_ERROR(source->Start());
    return source;
  }
  ~GeneratedBatches() override { Stop(); }

  int64_t last_batch_size() const override {
    return LastBatchSize(examples_, options_.batch_size, /*drop_remainder=*/false);
  }
  absl::StatusOr<std::vector<std::string>> Settings() const override {
    return std::vector<std::string>{absl::StrCat("data: a generator of ", FieldsText(fields_))};
  }

 private:
  GeneratedBatches(const PrefetcherOptions& options, std::vector<Field> fields, int64_t examples, Generator generate,
                   std::vector<Tensor> drawn)
      : ExampleRing(options, {.waits = true}, std::move(fields), examples,
                    BatchesPerEpoch(examples, options.batch_size, /*drop_remainder=*/false)),
        generate_(std::move(generate)),
        drawn_(std::move(drawn)),
        places_(fields_.size()) {}

  int64_t FirstExample(Position position) const {
    return position.epoch * examples_ + position.batch * options_.batch_size;
  }

  void Open(Slot& slot) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool last = slot.position.batch == batches_per_epoch() - 1;
    DealFrom(slot, last ? 1 : 0, last ? last_batch_size() : options_.batch_size);
  }

  void DealFrom(Slot& slot, size_t shape, int64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<int64_t> indices(count);
    std::iota(indices.begin(), indices.end(), FirstExample(slot.position));
    Deal(slot, shape, indices);
    slot.pieces = 1;
  }

  absl::Status Fill(Slot& slot, int64_t /*begin*/, int64_t /*end*/, int worker) override {
    RETURN_IF_ERROR(lost_);
    const int64_t wanted = slot.examples;
    int64_t count = 0;
    while (count < wanted && !ended_) {
      if (cancelled()) return absl::CancelledError("the source of batches was cancelled");
      RETURN_IF_ERROR(Draw(count));
      if (!ended_) ++count;
    }
    if (count == 0) {
      return absl::OutOfRangeError(absl::StrCat("the generator has ended after ", Counted(made_, "example")));
    }
    if (count < wanted) {
      MutexLock lock(mutex_);
      DealFrom(slot, 2, count);
    }
    return ExampleRing::Fill(slot, 0, count, worker);
  }

  absl::Status MakeExample(const Slot& /*slot*/, TowerBatch& tower, int64_t at, int /*worker*/) override {
    for (size_t i = 0; i < fields_.size(); ++i) {
      const size_t bytes = fields_[i].bytes();
      if (bytes > 0) std::memcpy(RowOf(tower, i, at), DrawnRow(i, at), bytes);
    }
    return absl::OkStatus();
  }

  std::byte* DrawnRow(size_t i, int64_t at) {
    return static_cast<std::byte*>(drawn_[i].raw()) + static_cast<size_t>(at) * fields_[i].bytes();
  }

  // Draws the next example as number `at` of drawn_.
  absl::Status Draw(int64_t at) {
    for (size_t i = 0; i < fields_.size(); ++i) places_[i] = DrawnRow(i, at);
    return CatchExceptions(made_, [&]() -> absl::Status {
      const absl::StatusOr<bool> more = generate_(Example(places_));
      // OutOfRange would be the end of the data.
      if (absl::IsOutOfRange(more.status())) {
        return absl::InternalError(absl::StrCat("the generator failed: ", more.status().message()));
      }
      RETURN_IF_ERROR(more.status());
      ended_ = !*more;
      if (*more) ++made_;
      return absl::OkStatus();
    });
  }

  // No thread makes a batch meanwhile. What was made ahead is gone, so after an error Next fails, too.
  absl::StatusOr<Position> Seek(const io::Metadata& saved) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::StatusOr<Position> position = SkipTo(saved);
    lost_ = position.status();
    return position;
  }

  absl::StatusOr<Position> SkipTo(const io::Metadata& saved) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ASSIGN_OR_RETURN(const Position position, ExampleRing::Seek(saved));
    const int64_t first = FirstExample(position);
    if (made_ > first) {
      return absl::FailedPreconditionError(absl::StrCat("the generator has made ", Counted(made_, "example"),
                                                        ", and cannot go back to number ", first,
                                                        "; resume before the first batch is taken"));
    }
    while (made_ < first && !ended_) RETURN_IF_ERROR(Draw(0));
    // The run may have ended with a smaller batch.
    if (made_ > first - options_.batch_size) return position;
    return absl::OutOfRangeError(absl::StrCat("the generator has ended after ", Counted(made_, "example"),
                                              ", and the run is to go on at number ", first));
  }

  const Generator generate_;
  // Used only by the one that makes a batch: the thread, the caller of Next, or Seek.
  std::vector<Tensor> drawn_;  // by field, of a batch
  std::vector<std::byte*> places_;
  int64_t made_ = 0;
  bool ended_ = false;
  absl::Status lost_;  // of a Resume that failed
};

class FunctionDataset final : public Dataset {
 public:
  FunctionDataset(std::vector<Field> fields, int64_t size, ExampleFunction function)
      : fields_(std::move(fields)), size_(size), function_(std::move(function)) {}
  int64_t size() const override { return size_; }
  absl::Span<const Field> fields() const override { return fields_; }
  absl::Status Read(int64_t index, const Example& example) const override {
    BELFRY_CHECK(0 <= index && index < size_);
    return function_(index, example);
  }

 private:
  const std::vector<Field> fields_;
  const int64_t size_;
  const ExampleFunction function_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BatchSource>> FromGenerator(std::vector<Field> fields, const GeneratorOptions& options,
                                                           Generator generate) {
  return GeneratedBatches::Create(std::move(fields), options, std::move(generate));
}

absl::StatusOr<std::unique_ptr<Dataset>> FromFunction(std::vector<Field> fields, int64_t size,
                                                      ExampleFunction function) {
  RETURN_IF_ERROR(CheckFields(fields));
  if (function == nullptr && size > 0) return absl::InvalidArgumentError("FromFunction was given no function");
  if (size < 0) return absl::InvalidArgumentError(absl::StrCat("size is ", size, "; expected at least 0"));
  return std::make_unique<FunctionDataset>(std::move(fields), size, std::move(function));
}

}  // namespace belfry::data
