// The kernel of an ElementwiseOp() node.
#pragma once

#include "absl/status/statusor.h"
#include "framework/compiler/program.h"
#include "framework/device/device.h"

namespace belfry {

// Runs the kernels of the node's members, made for blocks of a few thousand elements, one after another on each block,
// so that results between them stay in the first-level cache; reductions take each block as a piece. Blocks are
// multiples of kPieceUnit and of the rows that repeat. Each thread has its own blocks, workspace and kernels. The
// results equal the nodes' own, one by one, to the last bit. Errors: what a factory reports, with its node.
absl::StatusOr<Kernel> MakeElementwiseKernel(const Program& program, const ProgramNode& node, Device& device);

}  // namespace belfry
