// Captured work as an instantiated CUDA graph.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "framework/device/cuda/card.h"
#include "framework/device/cuda/handles.h"
#include "framework/device/device.h"

namespace belfry {

class CudaGraph final : public CapturedWork {
 public:
  // Ends the capture that `stream` of `card` began. After an error the streams that took part are usable again.
  static absl::StatusOr<std::unique_ptr<CapturedWork>> EndCapture(const Card& card, cudaStream_t stream);

  // REQUIRES: a stream of the same card.
  absl::Status Enqueue(Stream& stream) override;

 private:
  using Executable = std::unique_ptr<CUgraphExec_st, Destroy<cudaGraphExecDestroy>>;

  CudaGraph(const Card& card, Executable executable) : card_(card), executable_(std::move(executable)) {}

  const Card& card_;
  const Executable executable_;
};

}  // namespace belfry
