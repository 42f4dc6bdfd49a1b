#include <utility>

#include "framework/base/status.h"
#include "ops/cudnn/batch_norm_graph_impl.h"
#include "ops/cudnn/engine.h"

namespace belfry::cudnn {
namespace {

using ops::GpuBatchNorm;

// Adds tensors to a graph, with ascending ids.
class Tensors {
 public:
  Tensors(const GpuBatchNorm& p, OperationGraph& graph) : p_(p), graph_(graph) {}

  absl::StatusOr<const Descriptor*> Images() { return AddImages(++id_, Storage::kDevice); }
  absl::StatusOr<const Descriptor*> VirtualImages() { return AddImages(kVirtualIds + virtual_++, Storage::kVirtual); }
  absl::StatusOr<const Descriptor*> Channels() {
    return graph_.AddTensor(++id_, DType::kFloat32, 1, p_.channels, 1, 1);
  }
  absl::StatusOr<const Descriptor*> Number() {
    return graph_.AddTensor(++id_, DType::kFloat32, 1, 1, 1, 1, Storage::kHost);
  }

 private:
  absl::StatusOr<const Descriptor*> AddImages(int64_t id, Storage place) {
    return graph_.AddTensor(id, p_.dtype, p_.n, p_.channels, p_.pixels, 1, place);
  }

  const GpuBatchNorm& p_;
  OperationGraph& graph_;
  int64_t id_ = 0, virtual_ = 0;
};

constexpr cudnnBackendNormMode_t kMode = CUDNN_BATCH_NORM;

absl::StatusOr<OperationGraph> MakeForward(const GpuBatchNorm& p) {
  OperationGraph graph;
  Tensors tensors(p, graph);
  ASSIGN_OR_RETURN(const Descriptor* const x, tensors.Images());
  ASSIGN_OR_RETURN(const Descriptor* const scale, tensors.Channels());
  ASSIGN_OR_RETURN(const Descriptor* const offset, tensors.Channels());
  const Descriptor* addend = nullptr;
  if (p.add) {
    ASSIGN_OR_RETURN(addend, tensors.Images());
  }
  ASSIGN_OR_RETURN(const Descriptor* const y, tensors.Images());
  ASSIGN_OR_RETURN(const Descriptor* const mean, tensors.Channels());
  ASSIGN_OR_RETURN(const Descriptor* const inverse, tensors.Channels());
  ASSIGN_OR_RETURN(const Descriptor* const epsilon, tensors.Number());
  const Descriptor *normal = y, *sum = y;
  if (p.add || p.relu) {
    ASSIGN_OR_RETURN(normal, tensors.VirtualImages());
  }
  const cudnnBackendNormFwdPhase_t phase = CUDNN_NORM_FWD_TRAINING;
  Descriptor norm(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &kMode);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, *x);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, *scale);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, *offset);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, *epsilon);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, *mean);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, *inverse);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, *normal);
  RETURN_IF_ERROR(graph.AddOperation(std::move(norm)));
  if (p.add) {
    if (p.relu) {
      ASSIGN_OR_RETURN(sum, tensors.VirtualImages());
    }
    RETURN_IF_ERROR(graph.AddPointwise(CUDNN_POINTWISE_ADD, p.dtype, *normal, addend, *sum));
    normal = sum;
  }
  if (p.relu) RETURN_IF_ERROR(graph.AddPointwise(CUDNN_POINTWISE_RELU_FWD, p.dtype, *normal, nullptr, *y));
  return graph;
}

absl::StatusOr<OperationGraph> MakeGradient(const GpuBatchNorm& p) {
  OperationGraph graph;
  Tensors tensors(p, graph);
  ASSIGN_OR_RETURN(const Descriptor* const x, tensors.Images());
  ASSIGN_OR_RETURN(const Descriptor* const dy, tensors.Images());
  ASSIGN_OR_RETURN(const Descriptor* const scale, tensors.Channels());
  ASSIGN_OR_RETURN(const Descriptor* const mean, tensors.Channels());
  ASSIGN_OR_RETURN(const Descriptor* const inverse, tensors.Channels());
  ASSIGN_OR_RETURN(const Descriptor* const dx, tensors.Images());
  ASSIGN_OR_RETURN(const Descriptor* const dscale, tensors.Channels());
  ASSIGN_OR_RETURN(const Descriptor* const doffset, tensors.Channels());
  Descriptor norm(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &kMode);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, *x);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, *dy);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, *scale);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, *mean);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, *inverse);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, *dx);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, *dscale);
  norm.Set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, *doffset);
  RETURN_IF_ERROR(graph.AddOperation(std::move(norm)));
  return graph;
}

}  // namespace

absl::StatusOr<OperationGraph> MakeBatchNormGraph(const GpuBatchNorm& p) {
  return p.gradient ? MakeGradient(p) : MakeForward(p);
}

}  // namespace belfry::cudnn
