// Computing a graph of operations with the cuDNN engine that was measured to be the fastest. Internal.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/device/device.h"
#include "ops/cudnn/operation_graph.h"
#include "ops/gpu/library_core.h"

namespace belfry::cudnn {

// A graph of operations to compute. The ids of its tensors in device memory are 1, 2, ... in the order of the operands,
// followed by those of tensors in host memory. Ids of virtual tensors start at kVirtualIds.
struct Problem {
  std::string key;  // describes the computation and all extents; equal keys share an engine
  DType dtype = DType::kFloat32;
  std::vector<size_t> operand_bytes;
  std::vector<float> constants;  // the values of the tensors in host memory
  bool multiplies = true;        // if so, TF32 applies; if not, engines are compiled at run time, about a second each
  std::function<absl::StatusOr<OperationGraph>()> make_graph;
};
inline constexpr int64_t kVirtualIds = 1000;

// A core for the problem: the engine chosen earlier, in this or another process; otherwise the fastest of some that are
// measured, or in deterministic mode the first. Unimplemented if cuDNN has no engine for this device and its math mode.
// Thread-safe.
absl::StatusOr<ops::LibraryCore> MakeCore(Problem problem, Device& device);

}  // namespace belfry::cudnn
