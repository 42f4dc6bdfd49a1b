// Kernels that run a oneDNN primitive. Internal.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/kernel.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops {

// The dtypes offered to oneDNN. Cases that it rejects are left to our own loops.
inline bool OneDnnComputes(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kBFloat16; }

// True if no tensor of the node is empty; oneDNN rejects empty tensors.
bool HasElements(const KernelSpec& spec);

// A kernel that runs the primitive with the node's tensors reordered: the primitive's input i is the node's input
// inputs[i]. Inputs that are constants are brought into the library's layout once. Nothing if the status is
// Unimplemented, because oneDNN has no implementation or only a slow one; the caller then uses our own loops. Other
// errors are returned.
absl::StatusOr<std::optional<Kernel>> PrimitiveKernel(const KernelSpec& spec,
                                                      absl::StatusOr<onednn::Primitive> primitive,
                                                      std::vector<int> inputs, std::vector<int> outputs);

}  // namespace belfry::ops
