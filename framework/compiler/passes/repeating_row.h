// Operands of element-wise nodes that repeat. Internal to the passes.
#pragma once

#include <cstdint>

#include "framework/compiler/program.h"

namespace belfry {

// The period, in elements, of the operands of an element-wise node that are smaller than its result; 1 if there are
// none. 0 if an operand is broadcast otherwise, or if two have different periods.
int64_t RepeatingRow(const Program& program, const ProgramNode& node);

}  // namespace belfry
