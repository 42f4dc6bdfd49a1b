// Registration of the copy ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterConstantOps(OpRegistry& registry);  // constant.cc: Const, Placeholder, Fill, ZerosLike, OnesLike, Range
void RegisterViewOps(
    OpRegistry& registry);  // view.cc: Identity, StopGradient, Reshape, ReshapeTo, ReshapeLike, MergeAxes, ...
void RegisterExtentsOps(OpRegistry& registry);    // extents.cc
void RegisterCastOps(OpRegistry& registry);       // cast.cc: Cast, Shape
void RegisterBroadcastOps(OpRegistry& registry);  // broadcast.cc: BroadcastTo, BroadcastLike
void RegisterTransposeOps(OpRegistry& registry);  // transpose.cc
void RegisterTileOps(OpRegistry& registry);       // tile.cc: Tile, TileGrad
void RegisterConcatOps(OpRegistry& registry);     // concat.cc: Concat, Stack
void RegisterSplitOps(OpRegistry& registry);      // split.cc: Split, SplitLike, Unstack
void RegisterSliceOps(OpRegistry& registry);      // slice.cc: Slice, StridedSlice and their gradients
void RegisterPadOps(OpRegistry& registry);        // pad.cc

// In the CUDA module.
void AddBoxCopyGpuKernels(KernelTable& table);   // box_copy.cu
void AddConcatGpuKernels(KernelTable& table);    // concat.cu
void AddConstantGpuKernels(KernelTable& table);  // constant.cu
void AddShapeGpuKernels(KernelTable& table);     // shape.cu
void AddTileGpuKernels(KernelTable& table);      // tile.cu
// The rewrite "cancel_transposes" (rewrites/cancel_transposes.cc). Removes pairs of transposes that undo each other.
absl::Status CancelTransposes(Program& program, const RewriteContext& context);

}  // namespace belfry::ops
