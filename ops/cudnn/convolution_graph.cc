#include "ops/cudnn/convolution_graph_impl.h"

#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "ops/cudnn/engine.h"

namespace belfry::cudnn {
namespace {

using ops::GpuConv;

// Ids of the intermediate tensors between operations.
enum : int64_t { kProduct = kVirtualIds, kSum };

Descriptor MakeConvolution(const GpuConv& p) {
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  convolution.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, ComputeType(p.dtype));
  convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::vector<int64_t>{p.pad_h, p.pad_w});
  convolution.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::vector<int64_t>{p.pad_h + p.end_h, p.pad_w + p.end_w});
  convolution.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<int64_t>{p.dilation_h, p.dilation_w});
  convolution.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int64_t>{p.stride_h, p.stride_w});
  return convolution;
}

// Names of the attributes for the three kinds of convolution.
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

absl::Status AddConvolution(const GpuConv& p, const Descriptor& x, const Descriptor& filter, const Descriptor& y,
                            OperationGraph& graph) {
  ASSIGN_OR_RETURN(const Descriptor* const convolution, graph.AddUsed(MakeConvolution(p)));
  const Names names = NamesOf(p.kind);
  Descriptor operation(names.type);
  operation.Set(names.convolution, *convolution).Set(names.x, x).Set(names.filter, filter).Set(names.y, y);
  if (p.dtype == DType::kFloat64) {
    const double one = 1, zero = 0;
    operation.Set(names.alpha, CUDNN_TYPE_DOUBLE, 1, &one).Set(names.beta, CUDNN_TYPE_DOUBLE, 1, &zero);
  } else {
    const float one = 1, zero = 0;
    operation.Set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one).Set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  }
  return graph.AddOperation(std::move(operation));
}

}  // namespace

absl::StatusOr<OperationGraph> MakeConvolutionGraph(const GpuConv& p) {
  OperationGraph graph;
  const auto output = [&](int64_t id, Storage place) {
    return graph.AddTensor(id, p.dtype, p.n, p.k, p.out_h, p.out_w, place);
  };
  ASSIGN_OR_RETURN(const Descriptor* const x, graph.AddTensor(kX, p.dtype, p.n, p.c, p.h, p.w));
  ASSIGN_OR_RETURN(const Descriptor* const filter, graph.AddTensor(kFilter, p.dtype, p.k, p.c / p.groups, p.r, p.s));
  ASSIGN_OR_RETURN(const Descriptor* const y, output(kY, Storage::kDevice));
  if (!p.bias) {
    RETURN_IF_ERROR(AddConvolution(p, *x, *filter, *y, graph));
    return graph;
  }
  ASSIGN_OR_RETURN(const Descriptor* const bias, graph.AddTensor(kBias, p.dtype, 1, p.k, 1, 1));
  ASSIGN_OR_RETURN(const Descriptor* const product, output(kProduct, Storage::kVirtual));
  RETURN_IF_ERROR(AddConvolution(p, *x, *filter, *product, graph));
  const Descriptor* sum = y;
  if (p.relu) {
    ASSIGN_OR_RETURN(sum, output(kSum, Storage::kVirtual));
  }
  RETURN_IF_ERROR(graph.AddPointwise(CUDNN_POINTWISE_ADD, p.dtype, *product, bias, *sum));
  if (p.relu) RETURN_IF_ERROR(graph.AddPointwise(CUDNN_POINTWISE_RELU_FWD, p.dtype, *sum, nullptr, *y));
  return graph;
}

}  // namespace belfry::cudnn
