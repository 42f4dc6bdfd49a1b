// The search for a learning rate: a short training whose rate rises from step to step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/batch_source.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"

namespace belfry::trainers {

struct LearningRateSearch {
  double low = 1e-7, high = 10;  // of the first and the last step; the rate rises exponentially
  int64_t steps = 100;           // at least 10
  // Decay of the bias-corrected average of the losses, in [0, 1). fastai's 0.98 averages over 50 steps, in which the
  // rate rises by a factor of 10,000.
  double smoothing = 0.9;
  double divergence = 4;  // the search ends when the average exceeds that many times its lowest value, or is NaN
};

struct TriedRate {
  double rate = 0, loss = 0, smoothed = 0;
};

struct FoundLearningRate {
  std::vector<TriedRate> tried;  // in order
  // The rate at which the average falls fastest, by the logarithm of the rate; NaN if it falls nowhere.
  double steepest = 0;
  double lowest = 0;  // the rate of the lowest average, which is already too high for a training
};

// Learning-rate range test (Smith, "Cyclical learning rates for training neural networks", 2017), with the suggestion
// of fastai's lr_find: some steps with rising rates instead of the optimizer's schedule, except for groups of variables
// with schedules of their own (optim/parameter_groups.h). Variables without a value are initialized. Afterwards
// variables are restored from a copy in host memory, slots and the global step included, and the input's position if it
// supports Resume. All tasks of a run must call it. Errors: InvalidArgument for options out of range; Unimplemented for
// towers in series; errors of the input and of steps.
absl::StatusOr<FoundLearningRate> FindLearningRate(Session& session, const models::TrainStep& step,
                                                   data::BatchSource& input, const LearningRateSearch& search = {});

// A table of about 20 of the rates, with a bar for the average, and the suggestion.
std::string LearningRateTable(const FoundLearningRate& found);

}  // namespace belfry::trainers
