// Inputs and parts shared by the cases of array ops.
#pragma once

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/harness/op_case.h"

namespace belfry::harness {

inline const std::vector<DType> kEveryType(std::begin(kAllDTypes), std::end(kAllDTypes));

// An input that every dtype can represent.
inline Input Any(const Shape& shape) { return {.shape = shape, .low = 0, .high = 9}; }
// An input of which only the shape is used.
inline Input Like(const Shape& shape) { return {.shape = shape, .dtype = DType::kFloat32, .differentiable = false}; }

// A case of every dtype. `build` may return one output instead of several, and `reference` one array.
template <class Build, class Reference>
OpCase OfEveryType(std::string name, std::vector<Input> inputs, Build build, Reference reference,
                   std::vector<std::vector<Shape>> more_shapes = {}, std::vector<int> unknown_axes = {0}) {
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .build = [build](const Scope& scope, const Ins& in) -> Outs { return {build(scope, in)}; },
          .reference = [reference](const Arrays& in) -> Arrays { return {reference(in)}; },
          .dtypes = kEveryType,
          .more_shapes = std::move(more_shapes),
          .unknown_axes = std::move(unknown_axes)};
}

}  // namespace belfry::harness
