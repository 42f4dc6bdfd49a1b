// Measured times of the parts of one step.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "framework/compiler/plan.h"

namespace belfry {

// One instruction of a plan, from the time its stream began it until the stream went on; a wait lasts until it is
// satisfied.
struct StepSpan {
  int stream = 0;  // index into Plan::streams
  Instruction instruction{};
  absl::Time begin, end;
};

struct StepTrace {
  absl::Time begin, end;        // by SteadyNow, from the call until all work was done
  std::vector<StepSpan> spans;  // stream by stream, in order
};

}  // namespace belfry
