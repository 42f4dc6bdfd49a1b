// Training with all that TrainerOptions ask for.
#pragma once

#include "trainers/loop/training_loop.h"

namespace belfry::trainers {

// A TrainingLoop with progress, metrics, event files, a trace, early stopping and, if the run has a directory, the
// chain for audits (docs/audit.md).
class Trainer final : public TrainingLoop {
 public:
  Trainer(Session& session, const models::TrainStep& step, data::BatchSource& input, TrainerOptions options);
};

}  // namespace belfry::trainers
