// The loop that trainers share.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/data/prefetcher.h"
#include "framework/runtime/session.h"
#include "models/replicate_towers.h"
#include "trainers/evaluator.h"
#include "trainers/metrics.h"
#include "trainers/progress.h"

namespace belfry::trainers {

struct TrainerOptions {
  int64_t steps = 1000;      // of the whole run, counted by the global step
  int64_t log_every = 10;    // steps between two lines of the metrics file, and one after the last; 0: no lines
  std::string metrics_file;  // empty: none
  bool quiet = false;        // nothing on standard output
  // Called every `evaluate_every` steps and after the last, also if no step is left to do; the result is printed and
  // goes to the metrics file. Null: never.
  std::function<absl::StatusOr<Evaluation>(int64_t step)> evaluate;
  int64_t evaluate_every = 0;  // 0: only after the last
};

// Aborted, with the step, if the loss is NaN or infinite.
absl::Status CheckLoss(double loss, int64_t step);

// Feeds batches to a training step until the global step reaches options.steps, and tells a person how it goes.
// Everything is borrowed. One thread at a time.
class Trainer {
 public:
  Trainer(Session& session, const models::TrainStep& step, data::Prefetcher& input, TrainerOptions options);

  // Initializes the variables if nobody has, then trains. Errors: InvalidArgument for negative options; whatever the
  // input or a step reports; Aborted, with the step, if the loss is NaN or infinite.
  absl::Status Run();
  // Of the last step.
  double loss() const { return loss_; }
  // The last one.
  const Evaluation& evaluation() const { return evaluation_; }
  // Of all of Run, without the first step and evaluations.
  double examples_per_second() const { return examples_per_second_; }

 private:
  absl::Status InitializeOnce();
  // The prepared step for the towers' sizes of this batch: a full one, and the smaller one that may end an epoch.
  absl::StatusOr<PreparedStep*> StepFor(const data::Batch& batch);
  absl::Status Train(const data::Batch& batch);
  absl::Status Evaluate(int64_t step, Progress& progress, MetricsWriter& metrics);

  Session& session_;
  const models::TrainStep& step_;
  data::Prefetcher& input_;
  const TrainerOptions options_;
  std::map<std::vector<int64_t>, std::unique_ptr<PreparedStep>> prepared_;  // by examples of each tower
  std::vector<int64_t> counts_;
  std::vector<Tensor> feeds_;
  Evaluation evaluation_;
  double loss_ = 0, learning_rate_ = 0, examples_per_second_ = 0;
};

}  // namespace belfry::trainers
