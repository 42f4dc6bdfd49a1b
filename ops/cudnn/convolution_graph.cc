#include "ops/cudnn/convolution_graph_impl.h"

#include <utility>
#include <vector>

#include "framework/base/status.h"

namespace belfry::cudnn {
namespace {

using ops::GpuConv;

cudnnDataType_t DataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return CUDNN_DATA_DOUBLE;
    case DType::kFloat16: return CUDNN_DATA_HALF;
    case DType::kBFloat16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}
// What sums are computed in.
cudnnDataType_t ComputeType(DType dtype) { return dtype == DType::kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT; }

// Of what one operation of a graph hands to the next.
enum : int64_t { kProduct = kBias + 1, kSum };

// A tensor of four extents, given as N, C, H, W, that lies in memory with its channels innermost. A virtual one lies
// nowhere: it is what one operation of a graph hands to the next.
absl::StatusOr<Descriptor> Tensor4(int64_t id, DType dtype, int64_t n, int64_t c, int64_t h, int64_t w,
                                   bool is_virtual = false) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, is_virtual ? ComputeType(dtype) : DataType(dtype));
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<int64_t>{n, c, h, w});
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<int64_t>{h * w * c, 1, w * c, c});
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 64);
  tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  RETURN_IF_ERROR(tensor.Finalize());
  return tensor;
}

absl::StatusOr<Descriptor> MakeConvolution(const GpuConv& p) {
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  convolution.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, ComputeType(p.dtype));
  convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::vector<int64_t>{p.pad_h, p.pad_w});
  convolution.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::vector<int64_t>{p.pad_h, p.pad_w});
  convolution.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<int64_t>{p.dilation_h, p.dilation_w});
  convolution.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int64_t>{p.stride_h, p.stride_w});
  RETURN_IF_ERROR(convolution.Finalize());
  return convolution;
}

// The attributes of the three convolutions.
struct Names {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t convolution, x, filter, y, alpha, beta;
};
Names NamesOf(GpuConv::Kind kind) {
  switch (kind) {
    case GpuConv::Kind::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case GpuConv::Kind::kBackwardData:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

absl::Status AddPointwise(cudnnPointwiseMode_t mode, DType dtype, const Descriptor& x, const Descriptor* b,
                          const Descriptor& y, ConvolutionGraph& graph) {
  Descriptor formula(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  formula.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  formula.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, ComputeType(dtype));
  RETURN_IF_ERROR(formula.Finalize());
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, formula);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  RETURN_IF_ERROR(operation.Finalize());
  graph.formulas.push_back(std::move(formula));
  graph.operations.push_back(std::move(operation));
  return absl::OkStatus();
}

absl::Status AddConvolution(const GpuConv& p, const Descriptor& x, const Descriptor& filter, const Descriptor& y,
                            ConvolutionGraph& graph) {
  ASSIGN_OR_RETURN(Descriptor convolution, MakeConvolution(p));
  const Names names = NamesOf(p.kind);
  Descriptor operation(names.type);
  operation.Set(names.convolution, convolution).Set(names.x, x).Set(names.filter, filter).Set(names.y, y);
  if (p.dtype == DType::kFloat64) {
    const double one = 1, zero = 0;
    operation.Set(names.alpha, CUDNN_TYPE_DOUBLE, 1, &one).Set(names.beta, CUDNN_TYPE_DOUBLE, 1, &zero);
  } else {
    const float one = 1, zero = 0;
    operation.Set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one).Set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  }
  RETURN_IF_ERROR(operation.Finalize());
  graph.formulas.push_back(std::move(convolution));
  graph.operations.push_back(std::move(operation));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ConvolutionGraph> MakeConvolutionGraph(const GpuConv& p) {
  ConvolutionGraph graph;
  graph.tensors.reserve(6);
  const auto add = [&](absl::StatusOr<Descriptor> tensor) -> absl::StatusOr<const Descriptor*> {
    RETURN_IF_ERROR(tensor.status());
    graph.tensors.push_back(*std::move(tensor));
    return &graph.tensors.back();
  };
  const auto output = [&](int64_t id, bool is_virtual) {
    return Tensor4(id, p.dtype, p.n, p.k, p.out_h, p.out_w, is_virtual);
  };
  ASSIGN_OR_RETURN(const Descriptor* const x, add(Tensor4(kX, p.dtype, p.n, p.c, p.h, p.w)));
  ASSIGN_OR_RETURN(const Descriptor* const filter, add(Tensor4(kFilter, p.dtype, p.k, p.c / p.groups, p.r, p.s)));
  ASSIGN_OR_RETURN(const Descriptor* const y, add(output(kY, false)));
  if (!p.bias) {
    RETURN_IF_ERROR(AddConvolution(p, *x, *filter, *y, graph));
    return graph;
  }
  ASSIGN_OR_RETURN(const Descriptor* const bias, add(Tensor4(kBias, p.dtype, 1, p.k, 1, 1)));
  ASSIGN_OR_RETURN(const Descriptor* const product, add(output(kProduct, true)));
  RETURN_IF_ERROR(AddConvolution(p, *x, *filter, *product, graph));
  const Descriptor* sum = y;
  if (p.relu) {
    ASSIGN_OR_RETURN(sum, add(output(kSum, true)));
  }
  RETURN_IF_ERROR(AddPointwise(CUDNN_POINTWISE_ADD, p.dtype, *product, bias, *sum, graph));
  if (p.relu) RETURN_IF_ERROR(AddPointwise(CUDNN_POINTWISE_RELU_FWD, p.dtype, *sum, nullptr, *y, graph));
  return graph;
}

}  // namespace belfry::cudnn
