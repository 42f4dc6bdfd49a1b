// The kernel of an ElementwiseOp() node.
#pragma once

#include "absl/status/statusor.h"
#include "framework/compiler/program.h"
#include "framework/device/device.h"

namespace belfry {

// Runs the body's own kernels, made for blocks of a few thousand elements, one after another on each block, so that
// what lies between them stays in the first-level cache; reductions take each block as a piece. Blocks are whole
// multiples of kPieceUnit and of the rows that repeat. Threads get whole blocks, and a workspace and kernels each. The
// results are those of the nodes one by one, bit by bit. Errors: what a factory reports, with its node.
absl::StatusOr<Kernel> MakeElementwiseKernel(const Program& program, const ProgramNode& node, Device& device);

}  // namespace belfry
