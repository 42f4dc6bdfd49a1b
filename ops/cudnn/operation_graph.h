// Graphs of operations that cuDNN runs as one, and the parts common to all of them. Internal.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "ops/cudnn/descriptor.h"

namespace belfry::cudnn {

// The location of a tensor: device memory; virtual, passed from one operation to the next; or a single element in host
// memory, which is read when the operations are enqueued.
enum class Storage { kDevice, kVirtual, kHost };

struct OperationGraph {
  std::vector<Descriptor> operations;
  std::deque<Descriptor> used;  // tensors and parameters that the operations refer to

  // Adds a tensor of extents N, C, H, W with innermost channels. Virtual tensors have the type of the computation.
  absl::StatusOr<const Descriptor*> AddTensor(int64_t id, DType dtype, int64_t n, int64_t c, int64_t h, int64_t w,
                                              Storage place = Storage::kDevice);
  // Adds y = mode(x), or y = mode(x, b), element by element.
  absl::Status AddPointwise(cudnnPointwiseMode_t mode, DType dtype, const Descriptor& x, const Descriptor* b,
                            const Descriptor& y);
  // Finalises and keeps a descriptor that operations refer to, or an operation.
  absl::StatusOr<const Descriptor*> AddUsed(Descriptor descriptor);
  absl::Status AddOperation(Descriptor descriptor);
};

// The cuDNN types of a tensor's elements, and of computations with them.
cudnnDataType_t DataType(DType dtype);
cudnnDataType_t ComputeType(DType dtype);

}  // namespace belfry::cudnn
