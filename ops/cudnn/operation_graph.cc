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
  return AddTensor({.id = id,
                    .type = place == Storage::kVirtual ? ComputeType(dtype) : DataType(dtype),
                    .extents = {n, c, h, w},
                    .strides = {h * w * c, 1, w * c, c},
                    .place = place});
}

absl::StatusOr<const Descriptor*> OperationGraph::AddTensor(const TensorSpec& spec) {
  const bool is_virtual = spec.place == Storage::kVirtual, by_value = spec.place == Storage::kHost;
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, spec.type);
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, spec.extents);
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, spec.strides);
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, spec.id);
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, spec.alignment);
  tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  tensor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  return AddUsed(std::move(tensor));
}

absl::Status OperationGraph::AddPointwise(cudnnPointwiseMode_t mode, DType dtype, const Descriptor& x,
                                          const Descriptor* b, const Descriptor& y) {
  return AddPointwise({mode, ComputeType(dtype)}, x, b, nullptr, y);
}

absl::Status OperationGraph::AddPointwise(const Pointwise& formula, const Descriptor& x, const Descriptor* b,
                                          const Descriptor* t, const Descriptor& y) {
  Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &formula.mode);
  function.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, formula.precision);
  if (formula.axis >= 0) function.Set(CUDNN_ATTR_POINTWISE_AXIS, formula.axis);
  ASSIGN_OR_RETURN(const Descriptor* const used_function, AddUsed(std::move(function)));
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *used_function);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  if (t != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *t);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  return AddOperation(std::move(operation));
}

absl::Status OperationGraph::AddMatMul(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
  Descriptor product(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  product.Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  ASSIGN_OR_RETURN(const Descriptor* const used_product, AddUsed(std::move(product)));
  Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, *used_product);
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a).Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  return AddOperation(std::move(operation));
}

absl::Status OperationGraph::AddReduction(cudnnReduceTensorOp_t op, const Descriptor& x, const Descriptor& y) {
  Descriptor reduction(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
  reduction.Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  ASSIGN_OR_RETURN(const Descriptor* const used_reduction, AddUsed(std::move(reduction)));
  Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, *used_reduction);
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x).Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  return AddOperation(std::move(operation));
}

absl::Status OperationGraph::AddReshape(const Descriptor& x, const Descriptor& y) {
  Descriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x).Set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  return AddOperation(std::move(operation));
}

}  // namespace belfry::cudnn
