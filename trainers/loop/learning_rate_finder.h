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
  // Decay of the average of the losses, whose bias is corrected, in [0, 1). An average with 0.98, which fastai has, is
  // of 50 steps, in which the rate rises by a factor of 10,000.
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

// Trains for some steps with rates that rise, which replace those of the optimizer's schedule; groups of variables with
// schedules of their own keep these (optim/parameter_groups.h). Smith, "Cyclical learning rates for training neural
// networks" (2017), with the suggestion of fastai's lr_find. Variables without a value are
// initialized. Afterwards all variables have their values of before, slots and the global step too, and the input is
// where it was, if it can move. The copy of the variables is in host memory. Tasks of a run must all call it. Errors:
// InvalidArgument for options out of range; Unimplemented for towers in series; those of the input and of steps.
absl::StatusOr<FoundLearningRate> FindLearningRate(Session& session, const models::TrainStep& step,
                                                   data::BatchSource& input, const LearningRateSearch& search = {});

// A table of about 20 of the rates, with a bar for the average, and the suggestion.
std::string LearningRateTable(const FoundLearningRate& found);

}  // namespace belfry::trainers
