// How cuDNN computes a graph of operations: by the engine of its that was measured to be the fastest. Internal.
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

// What is to be computed. The tensors of the graph that lie in device memory have the unique ids 1, 2 and so on, in the
// order of the operands; those in host memory the ids after them. Ids of virtual ones begin with kVirtualIds.
struct Problem {
  std::string key;  // says what it is and the extents of all tensors; what equals it shares an engine
  DType dtype = DType::kFloat32;
  std::vector<size_t> operand_bytes;
  std::vector<float> constants;  // the values of the tensors in host memory
  bool multiplies = true;        // and may by TF32; else engines are compiled at run time, in a second or so each
  std::function<absl::StatusOr<OperationGraph>()> make_graph;
};
inline constexpr int64_t kVirtualIds = 1000;

// Thread-safe. Unimplemented if cuDNN cannot, on this device and in its math mode. Chooses an engine as it was chosen
// before, on this or another day; else measures some, or takes the first if results must not depend on that.
absl::StatusOr<ops::LibraryCore> MakeCore(Problem problem, Device& device);

}  // namespace belfry::cudnn
