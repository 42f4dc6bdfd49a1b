// The groups of the array family.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterConstantOps(OpRegistry& registry);   // Const, Placeholder, Fill, ZerosLike, OnesLike, Range
void RegisterViewOps(OpRegistry& registry);       // Identity, StopGradient, Reshape, ReshapeLike, ExpandDims, Squeeze
void RegisterCastOps(OpRegistry& registry);       // Cast, Shape
void RegisterBroadcastOps(OpRegistry& registry);  // BroadcastTo, BroadcastLike, Tile

}  // namespace belfry::ops
