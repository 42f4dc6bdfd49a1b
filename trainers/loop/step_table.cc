#include "trainers/loop/step_table.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/data/sampler.h"
#include "trainers/loop/planned_step.h"

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

absl::Status CheckLoss(double loss, int64_t step) {
  if (std::isfinite(loss)) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("Model diverged with loss = ", loss, " at step ", step, "; try a smaller learning rate"));
}

absl::StatusOr<PreparedStep*> StepTable::Find(int64_t examples, bool with_summaries) {
  Prepared& known = prepared_[examples];
  std::unique_ptr<PreparedStep>& prepared = with_summaries ? known.with_summaries : known.plain;
  if (prepared != nullptr) return prepared.get();
  const PlannedStep planned = TrainingStep(step_, examples, with_summaries ? summaries_ : std::vector<Output>());
  ASSIGN_OR_RETURN(prepared, session_.Prepare(planned.feeds, planned.fetches, planned.targets));
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

// A Prefetcher's towers are right; a BatchSource of the user's may divide its batches in another way.
absl::StatusOr<absl::Span<const Tensor>> StepTable::Feeds(const data::Batch& batch) {
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
  for (const data::TowerBatch& tower : batch.towers()) {
    feeds_.insert(feeds_.end(), tower.fields.begin(), tower.fields.end());
  }
  return absl::MakeConstSpan(feeds_);
}

absl::Status StepTable::Read(PreparedStep& step, int64_t number, StepResults& results,
                             std::vector<Tensor>* summaries) const {
  RETURN_IF_ERROR(step.Wait());
  results.loss = step.fetched(0).scalar<float>();
  results.learning_rate = step.fetched(1).scalar<float>();
  RETURN_IF_ERROR(CheckLoss(results.loss, number));
  int next = 2;
  for (Metric& metric : results.metrics) metric.value = step.fetched(next++).scalar<float>();
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
