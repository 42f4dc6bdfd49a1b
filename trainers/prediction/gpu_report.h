// The time of a step on GPUs that need not be there, for a person.
#pragma once

#include <string>
#include <vector>

#include "framework/compiler/plan.h"
#include "trainers/prediction/fused_step.h"

namespace belfry {

struct PredictedStep {
  std::vector<Demand> demands;  // by node
  std::vector<double> seconds;  // by node; those of averages, too
  StepDemand sum;               // of all kernels
  double step = 0;              // seconds, with what averages cost
  double exposed = 0;           // seconds in which averages hold the card up
  double host = 0;              // seconds of the host: a graph's launch, and the copy of the feeds for the next step
};

// The step of `device`, one of `cards` of a plan. Averages go over a ring of NVLinks: average + 2 (cards - 1) / cards
// bytes / (link link_share), beside the kernels where the plan's order lets them.
PredictedStep PredictStep(const Plan& plan, int device, int cards, const GpuCard& card);

// Tables of the step by kind of work, by layer and by op, each with launches, bytes, operations and time, and its sums
// beside those of `unfused`, the plan of the same step without fusion, by each of FusionRules.
std::string PredictionText(const Plan& plan, const Plan& unfused, int device, int cards, const GpuCard& card);

}  // namespace belfry
