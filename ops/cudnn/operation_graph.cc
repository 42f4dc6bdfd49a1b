#include "ops/cudnn/operation_graph.h"

#include <utility>

#include "framework/base/status.h"

namespace belfry::cudnn {

cudnnDataType_t DataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return CUDNN_DATA_DOUBLE;
    case DType::kFloat16: return CUDNN_DATA_HALF;
    case DType::kBFloat16: return CUDNN_DATA_BFLOAT16;
    case DType::kUInt8: return CUDNN_DATA_UINT8;
    case DType::kInt32: return CUDNN_DATA_INT32;
    default: return CUDNN_DATA_FLOAT;
  }
}
cudnnDataType_t ComputeType(DType dtype) { return dtype == DType::kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT; }

absl::StatusOr<const Descriptor*> OperationGraph::AddUsed(Descriptor descriptor) {
  RETURN_IF_ERROR(descriptor.Finalize());
  used.push_back(std::move(descriptor));
  return &used.back();
}

absl::Status OperationGraph::AddOperation(Descriptor descriptor) {
  RETURN_IF_ERROR(descriptor.Finalize());
  operations.push_back(std::move(descriptor));
  return absl::OkStatus();
}

absl::StatusOr<const Descriptor*> OperationGraph::AddTensor(int64_t id, DType dtype, int64_t n, int64_t c, int64_t h,
                                                            int64_t w, Storage place) {
  const bool is_virtual = place == Storage::kVirtual, by_value = place == Storage::kHost;
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, is_virtual ? ComputeType(dtype) : DataType(dtype));
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<int64_t>{n, c, h, w});
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<int64_t>{h * w * c, 1, w * c, c});
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 64);
  tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  tensor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  return AddUsed(std::move(tensor));
}

absl::Status OperationGraph::AddPointwise(cudnnPointwiseMode_t mode, DType dtype, const Descriptor& x,
                                          const Descriptor* b, const Descriptor& y) {
  Descriptor formula(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  formula.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  formula.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, ComputeType(dtype));
  ASSIGN_OR_RETURN(const Descriptor* const used_formula, AddUsed(std::move(formula)));
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *used_formula);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  return AddOperation(std::move(operation));
}

}  // namespace belfry::cudnn
