// Inputs shared by the cases of array ops.
#pragma once

#include <iterator>
#include <vector>

#include "tests/ops/harness/op_case.h"

namespace belfry::harness {

inline const std::vector<DType> kEveryType(std::begin(kAllDTypes), std::end(kAllDTypes));

// An input that every dtype can represent.
inline Input Any(const Shape& shape) { return {.shape = shape, .low = 0, .high = 9}; }
// An input of which only the shape is used.
inline Input Like(const Shape& shape) { return {.shape = shape, .dtype = DType::kFloat32, .differentiable = false}; }

}  // namespace belfry::harness
