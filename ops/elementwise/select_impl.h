#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "framework/graph/kernel.h"

namespace belfry::ops {

inline constexpr int kSelectOperands = 3;  // the condition, then the two choices

// An axis of the result with the operands' strides along it; 0 where an operand is stretched.
struct SelectAxis {
  int64_t extent = 1;
  std::array<int64_t, kSelectOperands> strides = {};
};

// The axes of the result, outermost first, merged where every operand allows it. At least one.
std::vector<SelectAxis> MergedSelectAxes(const KernelSpec& spec);

}  // namespace belfry::ops
