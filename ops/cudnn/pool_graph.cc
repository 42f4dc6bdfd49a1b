#include <array>
#include <utility>

#include "framework/base/status.h"
#include "ops/cudnn/pool_graph_impl.h"

namespace belfry::cudnn {
namespace {

using ops::GpuPool;
using Fractions = std::array<cudnnFraction_t, 2>;

void SetFractions(Descriptor& descriptor, cudnnBackendAttributeName_t name, int64_t h, int64_t w) {
  const Fractions values = {{{h, 1}, {w, 1}}};
  descriptor.Set(name, CUDNN_TYPE_FRACTION, 2, values.data());
}

// Elements outside the images are ignored.
Descriptor MakeResample(const GpuPool& p) {
  const bool max = p.kind == GpuPool::Kind::kMaximumGradient;
  const cudnnResampleMode_t mode = max ? CUDNN_RESAMPLE_MAXPOOL : CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
  const cudnnPaddingMode_t padding = max ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD;
  const cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
  const auto& [h, w] = p.window;
  Descriptor resample(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  resample.Set(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, 1, &mode);
  resample.Set(CUDNN_ATTR_RESAMPLE_COMP_TYPE, ComputeType(p.dtype));
  resample.Set(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, 2);
  resample.Set(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
  resample.Set(CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, 1, &padding);
  SetFractions(resample, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, h.window, w.window);
  SetFractions(resample, CUDNN_ATTR_RESAMPLE_STRIDES, h.stride, w.stride);
  SetFractions(resample, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, h.pad_low, w.pad_low);
  SetFractions(resample, CUDNN_ATTR_RESAMPLE_POST_PADDINGS, h.pad_high, w.pad_high);
  return resample;
}

}  // namespace

absl::StatusOr<OperationGraph> MakePoolGraph(const GpuPool& p) {
  OperationGraph graph;
  int64_t id = 0;
  const auto input = [&](DType dtype) {
    return graph.AddTensor(++id, dtype, p.n, p.channels, p.window.h.in, p.window.w.in);
  };
  const auto output = [&](DType dtype) {
    return graph.AddTensor(++id, dtype, p.n, p.channels, p.window.h.out, p.window.w.out);
  };
  ASSIGN_OR_RETURN(const Descriptor* const resample, graph.AddUsed(MakeResample(p)));
  if (p.kind == GpuPool::Kind::kAverage) {
    ASSIGN_OR_RETURN(const Descriptor* const x, input(p.dtype));
    ASSIGN_OR_RETURN(const Descriptor* const y, output(p.dtype));
    Descriptor pool(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
    pool.Set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, *resample);
    pool.Set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, *x).Set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, *y);
    RETURN_IF_ERROR(graph.AddOperation(std::move(pool)));
    return graph;
  }
  Descriptor pool(CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
  pool.Set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, *resample);
  if (p.kind == GpuPool::Kind::kMaximumGradient) {
    ASSIGN_OR_RETURN(const Descriptor* const winners, output(p.winners));
    pool.Set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, *winners);
  }
  ASSIGN_OR_RETURN(const Descriptor* const dy, output(p.dtype));
  ASSIGN_OR_RETURN(const Descriptor* const dx, input(p.dtype));
  pool.Set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, *dy).Set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, *dx);
  RETURN_IF_ERROR(graph.AddOperation(std::move(pool)));
  return graph;
}

}  // namespace belfry::cudnn
