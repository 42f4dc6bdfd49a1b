// The groups of the array family.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterConstantOps(OpRegistry& registry);   // Const, Placeholder, Fill, ZerosLike, OnesLike, Range
void RegisterViewOps(OpRegistry& registry);       // Identity, StopGradient, Reshape, ReshapeLike, ExpandDims, Squeeze
void RegisterCastOps(OpRegistry& registry);       // Cast, Shape
void RegisterBroadcastOps(OpRegistry& registry);  // BroadcastTo, BroadcastLike
void RegisterTransposeOps(OpRegistry& registry);  // Transpose
void RegisterTileOps(OpRegistry& registry);       // Tile, TileGrad
void RegisterConcatOps(OpRegistry& registry);     // Concat, Stack
void RegisterSplitOps(OpRegistry& registry);      // Split, SplitLike, Unstack
void RegisterSliceOps(OpRegistry& registry);      // Slice, StridedSlice and their gradients
void RegisterPadOps(OpRegistry& registry);        // Pad
void RegisterGatherOps(OpRegistry& registry);     // Gather, GatherGrad
void RegisterOneHotOps(OpRegistry& registry);     // OneHot
void RegisterSelectOps(OpRegistry& registry);     // Select

}  // namespace belfry::ops
