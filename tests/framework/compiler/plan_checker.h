// Checks a plan's memory independently of how it was planned: plays its streams with vector clocks, then verifies for
// every two tensors that share bytes on a device that, in every possible timing, the last use of one precedes the
// creation of the other.
#pragma once

#include <string>

#include "framework/compiler/plan.h"

namespace belfry {

// Describes the errors in the plan's streams and memory; empty if there are none.
std::string CheckPlan(const Plan& plan);

}  // namespace belfry
