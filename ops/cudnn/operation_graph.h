// Operations that cuDNN runs as one, and what the graphs of all kinds are made of. Internal.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "ops/cudnn/descriptor.h"

namespace belfry::cudnn {

// Where a tensor lies: in device memory; nowhere, as one operation hands it to the next; or, one element, in host
// memory, from which it is read when the operations are enqueued.
enum class Place { kDevice, kVirtual, kHost };

struct OperationGraph {
  std::vector<Descriptor> operations;
  std::deque<Descriptor> used;  // what they refer to: tensors and parameters

  // A tensor of four extents, given as N, C, H, W, with its channels innermost. A virtual one holds what sums are
  // computed in.
  absl::StatusOr<const Descriptor*> AddTensor(int64_t id, DType dtype, int64_t n, int64_t c, int64_t h, int64_t w,
                                              Place place = Place::kDevice);
  // y = mode(x), or of x and b, element by element.
  absl::Status AddPointwise(cudnnPointwiseMode_t mode, DType dtype, const Descriptor& x, const Descriptor* b,
                            const Descriptor& y);
  // Finalizes what operations refer to, or an operation.
  absl::StatusOr<const Descriptor*> AddUsed(Descriptor descriptor);
  absl::Status AddOperation(Descriptor descriptor);
};

// What tensors of a dtype hold, and what their sums are computed in.
cudnnDataType_t DataType(DType dtype);
cudnnDataType_t ComputeType(DType dtype);

}  // namespace belfry::cudnn
