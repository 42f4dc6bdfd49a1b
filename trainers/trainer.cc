#include "trainers/trainer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"

namespace belfry::trainers {

absl::Status CheckLoss(double loss, int64_t step) {
  if (std::isfinite(loss)) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("Model diverged with loss = ", loss, " at step ", step, "; try a smaller learning rate"));
}

Trainer::Trainer(Session& session, const models::TrainStep& step, data::Prefetcher& input, TrainerOptions options)
    : session_(session), step_(step), input_(input), options_(std::move(options)) {}

absl::Status Trainer::InitializeOnce() {
  if (session_.ReadVariable(step_.global_step).ok()) return absl::OkStatus();
  return session_.RunTarget(step_.initialize);
}

absl::StatusOr<PreparedStep*> Trainer::StepFor(const data::Batch& batch) {
  counts_.clear();
  for (const data::TowerBatch& tower : batch.towers()) counts_.push_back(tower.count);
  std::unique_ptr<PreparedStep>& prepared = prepared_[counts_];
  if (prepared == nullptr) {
    std::vector<FeedSpec> feeds;
    for (size_t i = 0; i < step_.towers.size(); ++i) {
      feeds.push_back({step_.towers[i].batch.images, batch.towers()[i].inputs.shape()});
      feeds.push_back({step_.towers[i].batch.labels, batch.towers()[i].labels.shape()});
    }
    ASSIGN_OR_RETURN(prepared, session_.Prepare(feeds, {step_.loss, step_.learning_rate}, {step_.update}));
  }
  return prepared.get();
}

absl::Status Trainer::Train(const data::Batch& batch) {
  ASSIGN_OR_RETURN(PreparedStep* const step, StepFor(batch));
  feeds_.clear();
  for (const data::TowerBatch& tower : batch.towers()) {
    feeds_.push_back(tower.inputs);
    feeds_.push_back(tower.labels);
  }
  RETURN_IF_ERROR(step->Run(feeds_));
  loss_ = step->fetched(0).scalar<float>();
  learning_rate_ = step->fetched(1).scalar<float>();
  return absl::OkStatus();
}

absl::Status Trainer::Evaluate(int64_t step, Progress& progress, MetricsWriter& metrics) {
  progress.Pause();
  ASSIGN_OR_RETURN(evaluation_, options_.evaluate(step));
  RETURN_IF_ERROR(metrics.Write({{"step", static_cast<double>(step)},
                                 {"test_accuracy", evaluation_.accuracy},
                                 {"test_top_5", evaluation_.top_5},
                                 {"test_loss", evaluation_.loss}}));
  progress.Print(absl::StrFormat("after step %d: test accuracy %.2f%%, top-5 %.2f%%, loss %.4f on %d images", step,
                                 100 * evaluation_.accuracy, 100 * evaluation_.top_5, evaluation_.loss,
                                 evaluation_.examples));
  progress.Resume();
  return absl::OkStatus();
}

absl::Status Trainer::Run() {
  for (const auto& [name, value] : {std::pair("steps", options_.steps), std::pair("log_every", options_.log_every),
                                    std::pair("evaluate_every", options_.evaluate_every)}) {
    if (value < 0) return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; expected at least 0"));
  }
  if (input_.options().towers != static_cast<int>(step_.towers.size())) {
    return absl::InvalidArgumentError(absl::StrCat("The input is split for ", input_.options().towers,
                                                   " towers and the model has ", step_.towers.size()));
  }
  RETURN_IF_ERROR(InitializeOnce());
  ASSIGN_OR_RETURN(MetricsWriter metrics, MetricsWriter::Open(options_.metrics_file));
  ASSIGN_OR_RETURN(const Tensor first, session_.ReadVariable(step_.global_step));
  Progress progress(first.scalar<int64_t>(), options_.steps, options_.quiet);
  for (int64_t step = first.scalar<int64_t>(); step < options_.steps; ++step) {
    int64_t examples;
    {
      ASSIGN_OR_RETURN(const data::Batch batch, input_.Next());
      examples = batch.examples();
      RETURN_IF_ERROR(Train(batch));
    }
    if (const absl::Status status = CheckLoss(loss_, step); !status.ok()) {
      progress.Finish();
      return status;
    }
    progress.Step(examples);
    const bool last = step + 1 == options_.steps;
    if (progress.Due() || last) progress.Show(step, loss_, learning_rate_);
    if (options_.log_every > 0 && (step % options_.log_every == 0 || last)) {
      RETURN_IF_ERROR(metrics.Write({{"step", static_cast<double>(step)},
                                     {"loss", loss_},
                                     {"learning_rate", learning_rate_},
                                     {"images_per_second", progress.recent_examples_per_second()}}));
    }
    const bool due = options_.evaluate_every > 0 && (step + 1) % options_.evaluate_every == 0;
    if (options_.evaluate && (due || last)) RETURN_IF_ERROR(Evaluate(step + 1, progress, metrics));
  }
  const bool nothing_to_do = first.scalar<int64_t>() >= options_.steps;
  if (options_.evaluate && nothing_to_do) RETURN_IF_ERROR(Evaluate(first.scalar<int64_t>(), progress, metrics));
  progress.Finish();
  examples_per_second_ = progress.examples_per_second();
  return absl::OkStatus();
}

}  // namespace belfry::trainers
