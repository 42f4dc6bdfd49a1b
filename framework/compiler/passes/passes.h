// The passes from graph to plan: functions on a Program, in the order in which compile.cc calls them.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/compiler/compile.h"
#include "framework/compiler/program.h"
#include "framework/device/device_set.h"
#include "framework/graph/graph.h"

namespace belfry {

// The part of the graph that the fetches and targets need when the feeds are given. The updates of a variable wait for
// each other in the order of their making. Errors: nothing asked for, an unknown or foreign Output, a feed of the wrong
// shape or given twice.
absl::StatusOr<Program> Prune(const Graph& graph, const ProgramRequest& request);

// Copies the devices that Place chose for the graph's nodes (by node id) to the program's.
void AssignDevices(Program& program, const std::vector<int>& devices);

// Gives every output its concrete shape, from those of the feeds. Errors: a placeholder that is not fed, shapes that do
// not fit; with the node and the user's line.
absl::Status InferShapes(Program& program);

// Computes small constant results now: what depends on constants, or on shapes, only.
absl::Status FoldConstants(Program& program);
// Has those who read a sum or a broadcast to the shape that its operand has already read the operand.
absl::Status DropIdentities(Program& program);
// Has those who read what a collective of one tower gives read what it takes. Errors: ranks of a collective that are
// missing, twice there, or do not agree.
absl::Status DropLoneCollectives(Program& program);
// Makes one node of several that compute the same on the same device.
absl::Status MergeCommonSubexpressions(Program& program);

// The op that stands for several, if its kernel exists where the node runs; null if not.
const OpDef* FusedOp(const OpRegistry& registry, const DeviceSet& devices, absl::string_view name,
                     const ProgramNode& node);

// Makes one node of Conv2D or MatMul, BiasAdd and activation, and of a convolution's filter and bias gradients, where
// nobody else sees what lies between, and the device has a kernel for the fused op.
absl::Status Fuse(Program& program, const OpRegistry& registry, const DeviceSet& devices);

// Has the gradient of a ReLU under a maximum pool taken before the pool's: a window's winner is above 0 where the
// pool's output is. The same bits from fewer elements, and nobody has to keep the ReLU's output for the backward pass.
absl::Status MaskBeforePoolGradients(Program& program);

// Makes one node of batch norm, an addition after it and the ReLU after that, where nobody else sees what lies between;
// and of the gradients of batch norm and of the ReLU over it.
absl::Status FuseNorms(Program& program, const OpRegistry& registry, const DeviceSet& devices);

// Makes one node of a convolution's gradient with respect to its images, an addition to it and the mask of a ReLU's
// gradient, where nobody else sees what lies between: what a residual block hands to the block before it.
absl::Status FuseInputGradients(Program& program, const OpRegistry& registry, const DeviceSet& devices);

// Removes pairs of transposes that undo each other.
absl::Status ChooseLayouts(Program& program);

// Has the backward pass compute again some of what the forward pass computed, instead of keeping it: the same kernels
// on the same bytes, so the same result. What draws random numbers, or is stateful otherwise, is kept.
absl::Status RecomputeForward(Program& program, Recompute recompute);

// Makes one ElementwiseOp() of element-wise nodes on one CPU device that feed each other, and views between them; those
// whose results are seen elsewhere too, if only after the last. Their results and operands have the same number of
// elements; an operand may instead have one, or repeat after a divisor of some small number of elements. A variable is
// read before the same updates as without, if need be as a copy (Order). With them go the reductions of their results
// to one element, to a short row or of short rows (KernelDef::reduce), and the update that ends them if nobody sees
// anything of them but the variable. Those with fewer than `smallest` elements stay as they are.
absl::Status FuseElementwise(Program& program, const DeviceSet& devices, int64_t smallest);

// Inserts a transfer wherever a node reads what another device holds: one per (tensor, destination).
absl::Status Partition(Program& program);

// Makes one all-reduce node per device of the ranks of a group that share it, and copies inputs that a collective could
// not overwrite.
absl::Status PrepareCollectives(Program& program);

// Fixes the order of execution: reads of a variable before its updates (unless they come after by dependency), an
// all-reduce as soon as its last gradient exists, what waits for other devices last.
absl::Status Order(Program& program);

// Makes one UpdatesOp() of updates with the same learning rate and attributes whose result nobody reads, where a device
// has a kernel that joins them (KernelDef::join) and a launch is saved: of those that wait for the same all-reduce, and
// of small ones.
absl::Status JoinUpdates(Program& program, const DeviceSet& devices);

}  // namespace belfry
