// The further training steps of a run that trains several in turn, as a GAN does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/data/batch_source.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"
#include "trainers/callbacks/callback.h"
#include "trainers/loop/step_table.h"
#include "trainers/loop/task_sync.h"
#include "trainers/loop/trainer_options.h"

namespace belfry::trainers {

// Borrows its arguments. Not thread-safe.
class AlternateSteps {
 public:
  // `steps`: TrainerOptions::alternate_steps, which run after `first`.
  AlternateSteps(Session& session, const models::TrainStep& first, absl::Span<const AlternateStep> steps,
                 TaskSync& tasks);

  // InvalidArgument for a step that is null, lacks a name of its own, or has other towers than the first.
  absl::Status Check() const;
  // Lines that must be the same in all tasks.
  std::vector<std::string> Settings() const;
  // The lines of all their models (ModelLines).
  std::vector<std::string> Models() const;
  // Reads the steps' own counts, and adds their losses, "generator", and metrics, "generator/accuracy", to
  // results.metrics. FailedPrecondition if they do not fit `steps` steps of the Trainer.
  absl::Status Start(int64_t steps, StepResults& results);
  // Prepares all for batches of that shape.
  absl::Status Prepare(const data::BatchShape& shape);
  // Runs those that are due after step `number` on its batch, and hands `running` each before. Reads their results if
  // `read`, or on CPUs. Errors: those of StepTable.
  absl::Status Run(const data::Batch& batch, int64_t number, bool read,
                   absl::FunctionRef<void(const PreparedStep&)> running, StepResults& results);
  // Waits until all that were run are done.
  absl::Status Wait();

 private:
  struct Other {
    const models::TrainStep& step() const { return *options.step; }

    const AlternateStep& options;
    StepTable table;
    StepResults results = {};
    size_t metrics = 0;  // the index of the loss in the run's results
  };

  Session& session_;
  const models::TrainStep& first_;
  std::vector<std::unique_ptr<Other>> others_;
};

}  // namespace belfry::trainers
