#include "framework/device/cuda/cuda_graph.h"

#include <utility>

#include "framework/base/status.h"
#include "framework/device/cuda/native.h"

namespace belfry {

absl::StatusOr<std::unique_ptr<CapturedWork>> CudaGraph::EndCapture(const Card& card, cudaStream_t stream) {
  RETURN_IF_ERROR(card.MakeCurrent());
  cudaGraph_t captured = nullptr;
  const absl::Status ended = card.Check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
  const std::unique_ptr<CUgraph_st, Destroy<cudaGraphDestroy>> graph(captured, {card.ordinal()});
  RETURN_IF_ERROR(ended);
  cudaGraphExec_t instance = nullptr;
  RETURN_IF_ERROR(card.Check(cudaGraphInstantiate(&instance, captured, 0), "cudaGraphInstantiate"));
  Executable executable(instance, {card.ordinal()});
  RETURN_IF_ERROR(card.Check(cudaGraphUpload(instance, stream), "cudaGraphUpload"));
  return std::unique_ptr<CapturedWork>(new CudaGraph(card, std::move(executable)));
}

absl::Status CudaGraph::Enqueue(Stream& stream) {
  return card_.Check(cudaGraphLaunch(executable_.get(), NativeStream(stream)), "cudaGraphLaunch");
}

}  // namespace belfry
