// The passes from graph to plan: functions on a Program, in the order in which compile.cc calls them. The rewrites of
// op families (rewrite.h) run between MergeCommonSubexpressions and RecomputeForward.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/compiler/compile_options.h"
#include "framework/compiler/program.h"
#include "framework/device/device_set.h"
#include "framework/graph/graph.h"

namespace belfry {

// Copies the part of the graph that the fetches and targets need when the feeds are given. The updates of a variable
// wait for each other in the order in which they were added. Errors: an empty request, an output that does not exist, a
// feed of the wrong shape or given twice, a node that waits for a value that is computed from it (Graph::Bind).
absl::StatusOr<Program> Prune(const Graph& graph, const ProgramRequest& request);

// Gives every output its concrete shape, from the shapes of the feeds. Errors: an unfed placeholder, shapes
// that do not fit; with the node and the user's line.
absl::Status InferShapes(Program& program);

// Fills in Program::collectives, ProgramNode::collective and ProgramNode::ranks from the attributes of the all-reduce
// nodes, which no later pass reads. Errors: a rank of a collective that is missing or there twice, ranks that do not
// agree on size, shapes or reduction.
absl::Status FindCollectives(Program& program);

// Larger results are not merged, nor folded unless they are weights: a folded constant takes memory as long as its plan
// lives.
inline constexpr size_t kMaxFoldedBytes = 4096;
// Computes results that depend only on constants, or only on shapes, and makes constants of them.
absl::Status FoldConstants(Program& program, Fold fold);
// Bypasses sums and broadcasts to the shape that their operand already has (OpDef::identity_if_same_shape).
absl::Status DropIdentities(Program& program);
// Bypasses collectives that have a single rank.
absl::Status DropLoneCollectives(Program& program);
// Makes one node of several on one device that compute the same.
absl::Status MergeCommonSubexpressions(Program& program);

// Makes the backward pass compute some results of the forward pass again instead of keeping them. The same kernels run
// on the same bytes, so the results are the same. Random numbers, and results of other stateful nodes, are kept.
absl::Status RecomputeForward(Program& program, Recompute recompute);

// Makes one ElementwiseOp() of element-wise nodes on one device that feed each other, and of the views between them:
// on a CPU, or on a GPU that compiles kernels, of nodes with element code. Their results and operands have the same
// number of elements; an operand may instead have one element, or repeat after a number of them, which on a CPU is
// small. Other nodes may read a member's result only after the last member. A variable is read before the same
// updates as without this pass, if necessary as a copy (Order). An update at the end becomes a member too if the
// variable is the only result that others read, and the members read no other elements of it than those that they
// update; so do, on a CPU, reductions of members to one element, to a short row or of short rows
// (KernelDef::reduce), and, on a GPU, nodes that only move the elements of an operand (ElementCode::rows). Nodes
// with fewer than `smallest` elements stay as they are. On a GPU this limit applies only if `smallest` > kFuseFrom.
absl::Status FuseElementwise(Program& program, const DeviceSet& devices, int64_t smallest);

// Inserts a transfer wherever a node reads what another device holds: one per (tensor, destination).
absl::Status Partition(Program& program);

// Makes one all-reduce node of the ranks of a collective that share a device, and copies inputs that a collective must
// not overwrite.
absl::Status PrepareCollectives(Program& program);

// Fixes the order of execution: reads of a variable before its updates, unless they depend on them; an all-reduce as
// soon as its last gradient exists; nodes that wait for other devices last.
absl::Status Order(Program& program);

// Makes one JoinedOp() of nodes on a GPU that compiles kernels whose generated kernels are the same, and which do not
// wait for one another: of updates that wait for the same all-reduce, of others up to a number of elements, and of what
// is computed from variables only. The other updates with the same attributes become one UpdatesOp(), where nobody
// reads their results and the device has a kernel for several (KernelDef::fuse_updates). With `smallest` larger than
// kFuseFrom, only updates are joined.
absl::Status FuseUpdates(Program& program, const DeviceSet& devices, int64_t smallest);

// Moves nodes within what their dependencies allow if that lowers the most bytes that a device holds at one moment by
// some percent. Workspaces, which are not known yet, do not count.
void LowerPeak(Program& program, int devices);

}  // namespace belfry
