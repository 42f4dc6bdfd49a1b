// Checks a plan's memory without knowing how it was planned: plays its streams with vector clocks, and then asks for
// every two tensors that share bytes of a device whether one is done with, in every possible timing, before the other
// begins.
#pragma once

#include <string>

#include "framework/compiler/plan.h"

namespace belfry {

// What is wrong with the plan's streams and memory; empty if nothing is.
std::string CheckPlan(const Plan& plan);

}  // namespace belfry
