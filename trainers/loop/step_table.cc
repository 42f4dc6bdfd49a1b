#include "trainers/loop/step_table.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/data/sampler.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kMaxSkipped = 100;  // steps in a row

// The run is given up after kMaxSkipped steps in a row: a scale that is fixed or at its minimum will not recover.
absl::Status ReadLossScale(double scale, int64_t skipped, int64_t step, StepResults& results) {
  const int64_t more = skipped - results.skipped;
  results.loss_scale = scale;
  results.skipped_in_row = more == step - results.step ? results.skipped_in_row + more : 0;
  results.skipped = skipped;
  if (results.skipped_in_row < kMaxSkipped) return absl::OkStatus();
  return absl::AbortedError(absl::StrFormat(
      "Model diverged: at step %d the last %d steps were skipped, because their gradients overflow even "
      "with a loss scale of %.9g; try a smaller learning rate or another dtype",
      step, results.skipped_in_row, results.loss_scale));
}

}  // namespace

absl::Status CheckLoss(double loss, int64_t step, absl::string_view cause) {
  if (std::isfinite(loss)) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "Model diverged with loss = ", loss, " at step ", step, cause.empty() ? "" : ": ", cause,
      cause.empty() ? "; try a smaller learning rate, or let check_numerics name the first op that is not finite"
                    : ""));
}

data::BatchShape StepTable::ShapeOf(const data::Batch& batch) const {
  return {batch.examples(), data::UnknownExtents(step_.towers[0].batch.fields(), batch.towers()[0])};
}

absl::StatusOr<PreparedStep*> StepTable::Find(const data::BatchShape& shape, bool with_summaries) {
  // Towers in series have one update for batches of all shapes.
  Prepared& known = prepared_[step_.micro_batches > 1 ? data::BatchShape(0) : shape];
  std::unique_ptr<PreparedStep>& prepared = with_summaries ? known.with_summaries : known.plain;
  if (prepared != nullptr) return prepared.get();
  const PlannedStep planned = TrainingStep(step_, shape, with_summaries ? summaries_ : std::vector<Output>());
  ASSIGN_OR_RETURN(prepared, Prepare(planned));
  if (tasks_.world().size() == 1) return prepared.get();
  const std::vector<std::string> lines = CollectiveLines(prepared->plan());
  // Task 0 alone may write summaries, so only the first plan for a batch is compared among all.
  if (known.collectives.empty()) {
    RETURN_IF_ERROR(tasks_.CheckSame("models", lines));
    known.collectives = lines;
  } else if (lines != known.collectives) {
    return absl::InternalError("a step with summaries runs other collectives than one without");
  }
  return prepared.get();
}

absl::StatusOr<std::unique_ptr<PreparedStep>> StepTable::Prepare(const PlannedStep& planned) {
  ASSIGN_OR_RETURN(std::unique_ptr<PreparedStep> prepared,
                   session_.Prepare(planned.feeds, planned.fetches, planned.targets));
  if (on_prepared_) RETURN_IF_ERROR(on_prepared_(planned.name, prepared->plan()));
  return prepared;
}

std::string StepTable::FaultOf(const data::Batch& batch) const {
  return data::FindFault(step_.towers[0].batch.fields(), batch);
}

// A Prefetcher's towers are right; a BatchSource of the user's may divide its batches in another way.
absl::StatusOr<absl::Span<const Tensor>> StepTable::Feeds(const data::Batch& batch) {
  const size_t towers = step_.towers.size() * static_cast<size_t>(step_.micro_batches);
  if (batch.towers().size() != towers) {
    return absl::InvalidArgumentError(
        absl::StrCat("The input gave a batch for ", batch.towers().size(), " towers, but this process has ", towers));
  }
  for (size_t i = 0; i < batch.towers().size(); ++i) {
    const int tower = step_.first_tower + static_cast<int>(i);
    const int64_t expected = data::RangeOfTower(batch.examples(), step_.towers_in_all, tower).count;
    if (batch.towers()[i].count == expected) continue;
    return absl::InvalidArgumentError(absl::StrCat("The input gave tower ", tower, " of ", step_.towers_in_all, " ",
                                                   Counted(batch.towers()[i].count, "example"), " of a batch of ",
                                                   batch.examples(), ", but ",
                                                   "data::RangeOfTower, by which batches are split, says ", expected));
  }
  feeds_.clear();
  if (step_.micro_batches > 1) return absl::MakeConstSpan(feeds_);
  for (const data::TowerBatch& tower : batch.towers()) {
    feeds_.insert(feeds_.end(), tower.fields.begin(), tower.fields.end());
  }
  return absl::MakeConstSpan(feeds_);
}

absl::StatusOr<absl::Span<PreparedStep* const>> StepTable::FindRuns(const data::BatchShape& shape) {
  std::vector<PreparedStep*>& known = runs_of_batch_[shape];
  while (static_cast<int>(known.size()) < step_.micro_batches) {
    const PlannedStep planned = RunInSeries(step_, shape, static_cast<int>(known.size()));
    std::vector<int64_t> extents;
    for (const FeedSpec& feed : planned.feeds) {
      extents.insert(extents.end(), feed.shape.dims().begin(), feed.shape.dims().end());
    }
    std::unique_ptr<PreparedStep>& prepared = runs_[extents];
    if (prepared == nullptr) {
      ASSIGN_OR_RETURN(prepared, Prepare(planned));
    }
    known.push_back(prepared.get());
  }
  return absl::MakeConstSpan(known);
}

absl::Status StepTable::RunSeries(const data::Batch& batch) {
  if (step_.micro_batches == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const absl::Span<PreparedStep* const> runs, FindRuns(ShapeOf(batch)));
  const absl::Span<const data::TowerBatch> towers = batch.towers();
  while (indices_.size() < towers.size()) {
    indices_.push_back(Tensor::Of<int64_t>({static_cast<int64_t>(indices_.size()) % step_.micro_batches}, {}));
    offsets_.emplace_back(DType::kInt64, Shape());
  }
  for (int index = 0; index < step_.micro_batches; ++index) {
    feeds_.clear();
    for (size_t device = 0; device < step_.towers.size(); ++device) {
      const size_t i = device * static_cast<size_t>(step_.micro_batches) + static_cast<size_t>(index);
      offsets_[i].data<int64_t>()[0] = towers[i].offset;
      feeds_.insert(feeds_.end(), towers[i].fields.begin(), towers[i].fields.end());
      feeds_.insert(feeds_.end(), {indices_[i], offsets_[i]});
    }
    RETURN_IF_ERROR(runs[static_cast<size_t>(index)]->Run(feeds_));
  }
  feeds_.clear();
  // An asynchronous device may still find an error in the last run. The update, which would apply the sums without that
  // tower, must not be in its queue by then.
  for (PreparedStep* const run : runs) RETURN_IF_ERROR(run->Wait());
  return absl::OkStatus();
}

absl::Status StepTable::Wait() {
  for (const auto& [extents, run] : runs_) RETURN_IF_ERROR(run->Wait());
  for (const auto& [shape, prepared] : prepared_) {
    for (PreparedStep* const step : {prepared.plain.get(), prepared.with_summaries.get()}) {
      if (step != nullptr) RETURN_IF_ERROR(step->Wait());
    }
  }
  return absl::OkStatus();
}

absl::Status StepTable::Read(PreparedStep& step, int64_t number, const data::Batch& batch, StepResults& results,
                             std::vector<Tensor>* summaries) {
  for (const auto& [extents, run] : runs_) RETURN_IF_ERROR(run->Wait());
  RETURN_IF_ERROR(step.Wait());
  results.loss = step.fetched(0).scalar<float>();
  results.learning_rate = step.fetched(1).scalar<float>();
  if (!std::isfinite(results.loss)) return CheckLoss(results.loss, number, FaultOf(batch));
  int next = 2;
  for (size_t i = 0; i < step_.metrics.size(); ++i) results.metrics[i].value = step.fetched(next++).scalar<float>();
  if (step_.loss_scale.valid()) {
    RETURN_IF_ERROR(
        ReadLossScale(step.fetched(next).scalar<float>(), step.fetched(next + 1).scalar<int64_t>(), number, results));
    next += 2;
  }
  results.step = number;
  if (summaries == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < summaries_.size(); ++i) summaries->push_back(step.fetched(next + static_cast<int>(i)));
  return absl::OkStatus();
}

absl::StatusOr<StepResults> StepTable::StartResults() const {
  StepResults results;
  for (const models::TrainMetric& metric : step_.metrics) results.metrics.push_back({.name = metric.name});
  if (!step_.loss_scale.valid()) return results;
  ASSIGN_OR_RETURN(const Tensor skipped, session_.ReadVariable(step_.skipped_steps));
  results.skipped = skipped.scalar<int64_t>();
  return results;
}

}  // namespace belfry::trainers
