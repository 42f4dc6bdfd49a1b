// The end of a run that gets no better.
#pragma once

#include <cstdint>

#include "trainers/callbacks/callback.h"

namespace belfry::trainers {

// Ends the run after `patience` evaluations in a row that were no better than the best one before. All evaluations
// count, also in the runs that this one continues.
class EarlyStopping final : public Callback {
 public:
  explicit EarlyStopping(int64_t patience) : patience_(patience) {}
  absl::Status OnStart(TrainingState& state) override;
  absl::Status OnEvaluation(TrainingState& state) override;

 private:
  const int64_t patience_;
};

}  // namespace belfry::trainers
