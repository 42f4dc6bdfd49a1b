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
#include "trainers/metrics.h"

namespace belfry::trainers {

struct TrainerOptions {
  int64_t steps = 1000;      // of the whole run, counted by the global step
  int64_t log_every = 10;    // steps between two lines of the metrics file
  std::string metrics_file;  // empty: none
  bool quiet = false;        // nothing on standard output
  // Called every `evaluate_every` steps and after the last; what it returns is printed. Null: never.
  std::function<absl::StatusOr<std::string>(int64_t step)> evaluate;
  int64_t evaluate_every = 0;  // 0: only after the last
};

// Feeds batches to a training step until the global step reaches options.steps, and tells a person how it goes.
// Everything is borrowed. One thread at a time.
class Trainer {
 public:
  Trainer(Session& session, const models::TrainStep& step, data::Prefetcher& input, TrainerOptions options);

  // Initializes the variables if nobody has, then trains. Errors: whatever the input or a step reports; Aborted, with
  // the step, if the loss is NaN or infinite.
  absl::Status Run();
  // Of the last step.
  double loss() const { return loss_; }
  // Of all of Run, without the first step and evaluations.
  double examples_per_second() const { return examples_per_second_; }

 private:
  absl::Status InitializeOnce();
  // The prepared step for the towers' sizes of this batch: a full one, and the smaller one that may end an epoch.
  absl::StatusOr<PreparedStep*> StepFor(const data::Batch& batch);
  absl::Status Train(const data::Batch& batch);

  Session& session_;
  const models::TrainStep& step_;
  data::Prefetcher& input_;
  const TrainerOptions options_;
  std::map<std::vector<int64_t>, std::unique_ptr<PreparedStep>> prepared_;  // by examples of each tower
  std::vector<int64_t> counts_;
  std::vector<Tensor> feeds_;
  double loss_ = 0, learning_rate_ = 0, examples_per_second_ = 0;
};

}  // namespace belfry::trainers
