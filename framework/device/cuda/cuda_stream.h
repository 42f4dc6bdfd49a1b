// CUDA streams.
#pragma once

#include <memory>
#include <vector>

#include "framework/device/cuda/card.h"
#include "framework/device/cuda/handles.h"
#include "framework/device/cuda/host_route.h"
#include "framework/device/device.h"

namespace belfry {

class CudaStream final : public Stream {
 public:
  static absl::StatusOr<std::unique_ptr<CudaStream>> Make(StreamKind kind, const Card& card, const Peers& peers);
  ~CudaStream() override;

  StreamKind kind() const override { return kind_; }
  absl::Status Wait(Event& event, uint32_t run, absl::Time deadline) override;
  void Record(Event& event, uint32_t run) override;
  // Memory of a device that is not a CudaDevice is host memory; unless it is page-locked, the call may block until the
  // copy is done.
  absl::Status Copy(void* to, const Device& to_device, const void* from, const Device& from_device,
                    size_t bytes) override;
  absl::Status Synchronize() override;
  absl::Status Error() override;
  absl::Status BeginCapture() override;
  absl::StatusOr<std::unique_ptr<CapturedWork>> EndCapture() override;

  const Card& card() const { return card_; }
  cudaStream_t native() const { return stream_.get(); }

 private:
  CudaStream(StreamKind kind, const Card& card, const Peers& peers, StreamHandle stream)
      : kind_(kind), card_(card), peers_(peers), stream_(std::move(stream)) {}
  absl::Status RecordOnHost(Event& event, uint32_t run);
  absl::Status CopyBetween(void* to, const Card& to_card, const void* from, const Card& from_card, size_t bytes);
  absl::StatusOr<HostRoute*> Route(const Card& from, const Card& to);

  const StreamKind kind_;
  const Card& card_;
  const Peers& peers_;
  const StreamHandle stream_;
  std::vector<std::unique_ptr<HostRoute>> routes_;
  absl::Status error_;  // the first error of a Record, until reported
};

}  // namespace belfry
