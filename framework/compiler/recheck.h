// The ops of a plan that are computed again, to find faults of the hardware that raise no error.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "framework/compiler/plan.h"

namespace belfry {

// A plan's turns: its steps are counted off in cycles, and each op that can be computed again is so in one step of each
// cycle. The ops of a device take turns in their order, by their estimated time, so that the steps of a cycle take
// about the same.
struct RecheckPlan {
  int steps = 1;                      // of a cycle
  std::vector<int> turn;              // by node: the step of a cycle; -1: never. Collectives have one, too, at which
                                      // their results are compared, the same on all devices
  std::vector<size_t> scratch_bytes;  // by device: memory for the second results of one op
  int ops = 0, without = 0;           // ops that have a turn, and ops that have none
  double time = 0;                    // that a step takes longer, as a share of it
};

// Left out are stateful ops that neither update variables nor draw random numbers as OpRole::kRandomUniform does, which
// may change something else each time, and updates that read another part of their variable. `share`: of the ops of a
// step, above 0 and at most 1; a cycle has 1 / share steps, rounded up.
RecheckPlan PlanRecheck(const Plan& plan, double share, int devices);

// The scratch memory of a node: a copy of each variable that it updates, then its outputs, each aligned. A variable
// that is named twice has one copy. By input and output; -1: none.
struct RecheckScratch {
  std::vector<ptrdiff_t> inputs, outputs;  // bytes from the beginning
  size_t bytes = 0;
};
RecheckScratch PlanScratch(const Plan& plan, int node);

// A line for a person: the ops, the steps of a cycle, and what they cost.
std::string RecheckText(const RecheckPlan& recheck);

}  // namespace belfry
