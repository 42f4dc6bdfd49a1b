// The text of kernels for fused element-wise nodes, for devices that compile them. Internal to the compiler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/compiler/program.h"
#include "framework/device/device.h"

namespace belfry {

// The struct that a kernel takes (KernelArgument in generated_kernel.cc) has pointers to the inputs that all nodes of a
// launch share, and for each node to its other inputs and its outputs.
struct KernelSource {
  std::string text;   // equal texts compute the same of other tensors
  int capacity = 0;   // nodes of a launch
  int64_t chunk = 0;  // elements that one block computes
  // Indexed by a node's input: its place among the pointers of the launch, or -1 - its place among those of the node.
  std::vector<int> places;
  int shared = 0, pointers = 0;  // pointers of a launch, and of a node; outputs are the last of the latter
  // The extents of a matrix that is read transposed; 0 if none is.
  int64_t rows = 0, columns = 0;
};

// The kernel for nodes like `node`, an ElementwiseOp() node, up to `capacity` in one launch, fewer if MostJoined says
// so. `shared`: by input, whether all of them read the same tensor; may be empty.
// Nothing if a member has no element code. `declarations`: OpRegistry::element_declarations().
//
// A thread computes as many adjacent elements as 16 bytes have of the smallest dtype, at most 8. Each member's result
// is rounded to its dtype, as its own kernel would do.
std::optional<KernelSource> SourceOf(const Program& program, const ProgramNode& node, const std::vector<bool>& shared,
                                     int capacity, Device& device, absl::string_view declarations);

// The nodes that fit into the argument of one launch, with so many pointers each and so many that they share.
int MostJoined(int pointers, int shared);

// True if a kernel on `device` can be generated of the node, as a member: it has element code that nobody's kernel for
// that device replaces.
bool HasElementCode(const ProgramNode& node, const Device& device);
// The element code of a member, and of a node of a program. REQUIRES: HasElementCode.
std::optional<ElementCode> CodeOf(const Program& program, const ProgramNode& node, Device& device);

}  // namespace belfry
