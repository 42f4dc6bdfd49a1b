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

// Any tensor: extents, and strides in elements.
struct TensorSpec {
  int64_t id = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int64_t> extents, strides;
  Storage place = Storage::kDevice;
  int64_t alignment = 64;  // of its address, in bytes
};
// A function of elements, computed in `precision`; `axis`: of an index that it generates.
struct Pointwise {
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_IDENTITY;
  cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  int64_t axis = -1;
};

struct OperationGraph {
  std::vector<Descriptor> operations;
  std::deque<Descriptor> used;  // tensors and parameters that the operations refer to

  // Adds a tensor of extents N, C, H, W with innermost channels. Virtual tensors have the type of the computation.
  absl::StatusOr<const Descriptor*> AddTensor(int64_t id, DType dtype, int64_t n, int64_t c, int64_t h, int64_t w,
                                              Storage place = Storage::kDevice);
  absl::StatusOr<const Descriptor*> AddTensor(const TensorSpec& spec);
  // Adds y = mode(x), or y = mode(x, b), element by element.
  absl::Status AddPointwise(cudnnPointwiseMode_t mode, DType dtype, const Descriptor& x, const Descriptor* b,
                            const Descriptor& y);
  // Adds y = x, or as `formula` says of x, b and t, of which b and t may be null.
  absl::Status AddPointwise(const Pointwise& formula, const Descriptor& x, const Descriptor* b, const Descriptor* t,
                            const Descriptor& y);
  // Adds c = a b for each pair of outer indices, summed in float32.
  absl::Status AddMatMul(const Descriptor& a, const Descriptor& b, const Descriptor& c);
  // Adds y = x reduced along the axes in which y has extent 1.
  absl::Status AddReduction(cudnnReduceTensorOp_t op, const Descriptor& x, const Descriptor& y);
  // Adds y, the elements of x with y's extents and strides.
  absl::Status AddReshape(const Descriptor& x, const Descriptor& y);
  // Finalises and keeps a descriptor that operations refer to, or an operation.
  absl::StatusOr<const Descriptor*> AddUsed(Descriptor descriptor);
  absl::Status AddOperation(Descriptor descriptor);
};

// The cuDNN types of a tensor's elements, and of computations with them.
cudnnDataType_t DataType(DType dtype);
cudnnDataType_t ComputeType(DType dtype);

}  // namespace belfry::cudnn
