#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda/current.h"
#include "framework/device/cuda/native.h"
#include "ops/cudnn/descriptor.h"
#include "ops/gpu/autotune.h"
#include "ops/nn/conv2d_gpu_impl.h"

namespace belfry::ops {
namespace {

using cudnn::Descriptor;

constexpr size_t kMostWorkspace = size_t{256} << 20;
constexpr int kCandidates = 8;

// Unique ids of the tensors of a graph.
enum : int64_t { kX = 1, kFilter, kY, kBias, kProduct, kSum };

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

// The operations of a graph, and what they refer to.
struct Graph {
  std::vector<Descriptor> tensors, formulas, operations;
};

absl::Status AddPointwise(cudnnPointwiseMode_t mode, DType dtype, const Descriptor& x, const Descriptor* b,
                          const Descriptor& y, Graph& graph) {
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
                            Graph& graph) {
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

absl::StatusOr<Graph> MakeGraph(const GpuConv& p) {
  Graph graph;
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

std::string KeyOf(const GpuConv& p, const MathMode& math) {
  constexpr absl::string_view kKinds[] = {"forward", "data", "filter"};
  return absl::StrCat("conv ", kKinds[static_cast<int>(p.kind)], " ", DTypeName(p.dtype), " x", p.n, "x", p.h, "x", p.w,
                      "x", p.c, " f", p.r, "x", p.s, "x", p.k, " s", p.stride_h, "x", p.stride_w, " p", p.pad_h, "x",
                      p.pad_w, " d", p.dilation_h, "x", p.dilation_w, " g", p.groups,
                      absl::StrCat(p.bias ? " bias" : "", p.relu ? " relu" : "", math.tf32 ? " tf32" : "", " cudnn",
                                   cudnnGetVersion()));
}

// Runs the plans of one convolution. One thread at a time.
class Runner {
 public:
  Runner(cudnn::Handle& handle, Graph graph, cudnn::Plans plans, bool bias)
      : handle_(handle), graph_(std::move(graph)), plans_(std::move(plans)), ids_({kX, kFilter, kY}) {
    if (bias) ids_.push_back(kBias);
  }

  const std::vector<cudnn::ExecutionPlan>& plans() const { return plans_.plans; }

  absl::Status Run(int plan, Stream& stream, const GpuConvOperands& at) {
    std::vector<void*>& data = next_;
    data.assign({at.x, at.filter, at.y});
    if (ids_.size() > 3) data.push_back(const_cast<void*>(at.bias));
    data.push_back(at.workspace);
    if (data != last_) {  // in a plan the addresses are always the same
      data.pop_back();
      ASSIGN_OR_RETURN(Descriptor pack, cudnn::MakeVariantPack(ids_, data, at.workspace));
      pack_ = std::make_unique<Descriptor>(std::move(pack));
      data.push_back(at.workspace);
      last_ = data;
    }
    const MutexLock lock(handle_.mutex);
    RETURN_IF_ERROR(cudnn::Check(cudnnSetStream(handle_.handle, NativeStream(stream)), "cudnnSetStream"));
    return cudnn::Check(cudnnBackendExecute(handle_.handle, plans_.plans[plan].plan.get(), pack_->get()),
                        "running a convolution");
  }

 private:
  cudnn::Handle& handle_;
  const Graph graph_;
  const cudnn::Plans plans_;
  std::vector<int64_t> ids_;
  std::vector<void*> last_, next_;
  std::unique_ptr<Descriptor> pack_;
};

}  // namespace

absl::StatusOr<GpuConvCore> MakeLibraryGpuConv(const GpuConv& p, Device& device) {
  const MathMode math = device.math();
  RETURN_IF_ERROR(MakeCurrent(device));
  ASSIGN_OR_RETURN(cudnn::Handle* const handle, device.Shared<cudnn::Handle>(&cudnn::Handle::Make));
  ASSIGN_OR_RETURN(Graph graph, MakeGraph(p));
  std::shared_ptr<Runner> runner;
  {
    const MutexLock lock(handle->mutex);
    ASSIGN_OR_RETURN(cudnn::Plans plans, cudnn::FindPlans(handle->handle, graph.operations,
                                                          {.tensor_cores = math.tf32 || p.dtype != DType::kFloat32,
                                                           .deterministic = math.deterministic,
                                                           .most_workspace = kMostWorkspace,
                                                           .most = math.deterministic ? 1 : kCandidates}));
    runner = std::make_shared<Runner>(*handle, std::move(graph), std::move(plans), p.bias);
  }
  int chosen = 0;
  if (!math.deterministic) {
    const size_t size = SizeOf(p.dtype);
    size_t workspace = 0;
    for (const cudnn::ExecutionPlan& plan : runner->plans()) workspace = std::max(workspace, plan.workspace_bytes);
    const std::array<size_t, 5> bytes = {
        static_cast<size_t>(p.image_elements()) * size, static_cast<size_t>(p.filter_elements()) * size,
        static_cast<size_t>(p.output_elements()) * size, static_cast<size_t>(p.k) * size, workspace};
    ASSIGN_OR_RETURN(chosen, ChooseFastest(device, KeyOf(p, math), static_cast<int>(runner->plans().size()), bytes,
                                           [&](int candidate, Stream& stream, absl::Span<void* const> at) {
                                             return runner->Run(candidate, stream, {at[0], at[1], at[2], at[3], at[4]});
                                           }));
  }
  const size_t workspace_bytes = runner->plans()[chosen].workspace_bytes;
  return GpuConvCore{
      [runner, chosen](Stream& stream, const GpuConvOperands& at) { return runner->Run(chosen, stream, at); },
      workspace_bytes};
}

}  // namespace belfry::ops
