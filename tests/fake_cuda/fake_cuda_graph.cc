// Stream capture, and launching captured graphs.
#include "tests/fake_cuda/fake_cuda_state.h"

using namespace belfry::fake_cuda;  // NOLINT: CUDA's functions are global

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = Trouble("cudaStreamBeginCapture", stream->card); error != cudaSuccess) {
    return Done(error);
  }
  if (stream->capture != nullptr || own_capture != nullptr || mode != cudaStreamCaptureModeThreadLocal) {
    return Done(cudaErrorIllegalState);
  }
  stream->capture = own_capture = std::make_shared<CUgraph_st>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const cudaError_t error = Trouble("cudaStreamEndCapture", stream->card);
  if (stream->capture == nullptr) return Done(cudaErrorIllegalState);
  if (stream->capture != own_capture) return Done(cudaErrorStreamCaptureWrongThread);
  own_capture = nullptr;
  const std::shared_ptr<CUgraph_st> capture = std::exchange(stream->capture, nullptr);
  bool joined = true;
  for (const auto& [other, recorded] : capture->others) {
    other->capture = nullptr;
    joined = joined && recorded;
  }
  if (error != cudaSuccess) return Done(error);
  if (capture->invalid) return Done(cudaErrorStreamCaptureInvalidated);
  if (!joined) return Done(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st(*capture);
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  ++world().handles;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  --world().handles;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = Trouble("cudaGraphInstantiate", current); error != cudaSuccess) return Done(error);
  *exec = new CUgraphExec_st{graph->work};
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  ++world().handles;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  --world().handles;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream) {
  return Done(Trouble("cudaGraphUpload", stream->card));
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const cudaError_t error = Trouble("cudaGraphLaunch", stream->card); error != cudaSuccess) return Done(error);
  for (const auto& work : exec->work) stream->Enqueue(work);
  return cudaSuccess;
}

}  // extern "C"
