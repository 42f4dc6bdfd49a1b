// Extents as inputs of ops. A carrier is a tensor without elements, of shape [extents..., 0]. An op that needs a shape
// takes one as a shape_only input; the compiler folds it to an empty constant.
#pragma once

#include "absl/status/statusor.h"
#include "framework/base/shape.h"
#include "framework/graph/scope.h"
#include "ops/extents.h"

namespace belfry::ops {

// The dtype of carriers.
inline constexpr char kCarrierType[] = "float32";

// A carrier of these extents, none of which may be -1.
Output CarrierOf(const Scope& scope, const Extents& extents);

// The shape that a carrier stands for. InvalidArgument if the tensor of this shape is none.
absl::StatusOr<Shape> CarriedShape(const Shape& carrier);

}  // namespace belfry::ops
