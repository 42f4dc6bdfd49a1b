// Timestamps of CUDA streams.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/device/cuda/card.h"
#include "framework/device/cuda/handles.h"
#include "framework/device/device.h"

namespace belfry {

// CUDA measures the time between two events, less accurately the longer it is. So all stamps are measured from an event
// at which the host read its own clock; it is renewed at every stamp 0, the first of a step.
class CudaClock final : public StreamClock {
 public:
  static absl::StatusOr<std::unique_ptr<CudaClock>> Make(const Card& card, int stamps);
  absl::Status Stamp(Stream& stream, int i) override;
  absl::StatusOr<absl::Time> Read(int i) override;

 private:
  CudaClock(const Card& card, StreamHandle stream) : card_(card), stream_(std::move(stream)) {}
  absl::Status Restart();

  const Card& card_;
  const StreamHandle stream_;  // has no other work
  std::vector<EventHandle> stamps_;
  EventHandle zero_, trial_;
  absl::Time zero_time_;
};

}  // namespace belfry
