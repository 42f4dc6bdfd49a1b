// When CUDA streams got to points of their work.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/device/cuda/card.h"
#include "framework/device/cuda/handles.h"
#include "framework/device/device.h"

namespace belfry {

// CUDA tells the time between two events, so all stamps are told from one at which the host looked at its own clock.
class CudaClock final : public StreamClock {
 public:
  // Waits until the card has come to the first stamp, on a stream without other work.
  static absl::StatusOr<std::unique_ptr<CudaClock>> Make(const Card& card, int stamps);
  absl::Status Stamp(Stream& stream, int i) override;
  absl::StatusOr<absl::Time> Read(int i) override;

 private:
  explicit CudaClock(const Card& card) : card_(card) {}

  const Card& card_;
  std::vector<EventHandle> stamps_;
  EventHandle zero_;
  absl::Time zero_time_;
};

}  // namespace belfry
