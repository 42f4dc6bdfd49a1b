// A oneDNN primitive as the kernel of a node. Internal.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/kernel.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops {

// dtypes that the library is asked for; what it then refuses goes to our own loops.
inline bool OneDnnComputes(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kBFloat16; }

// True if no tensor of the node is without elements: oneDNN takes no empty ones.
bool HasElements(const KernelSpec& spec);

// The primitive with the node's inputs and outputs in its own order: its input i is the node's input inputs[i]. Nothing
// if there is no primitive because the library has none, or only a slow one; then our own loops do it. Other errors
// stay.
absl::StatusOr<std::optional<Kernel>> PrimitiveKernel(absl::StatusOr<onednn::Primitive> primitive,
                                                      std::vector<int> inputs, std::vector<int> outputs);

}  // namespace belfry::ops
