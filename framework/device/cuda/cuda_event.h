// An Event that CUDA streams record and wait for.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "framework/device/cpu/cpu_event.h"
#include "framework/device/cuda/card.h"
#include "framework/device/cuda/handles.h"
#include "framework/device/device.h"
#include "framework/device/event_ring.h"

namespace belfry {

// Two steps: that a run was asked to be recorded, which the host counts, and that its work is done, which one of a ring
// of CUDA events tells.
class CudaEvent final : public Event {
 public:
  // `card`: of the device that makes it, and mostly records it.
  explicit CudaEvent(const Card& card);

  absl::Status Wait(uint32_t run, absl::Time deadline) override;
  void Record(uint32_t run) override;
  void Cancel() override;
  void Reset(uint32_t run) override;

  // What a stream of `card` does to record `run`. After an error it is recorded nevertheless, so that nobody waits for
  // ever.
  absl::Status RecordOn(const Card& card, cudaStream_t stream, uint32_t run);
  // What a stream of `card` does to wait for `run`.
  absl::Status WaitOn(const Card& card, cudaStream_t stream, uint32_t run, absl::Time deadline);

 private:
  struct Native {
    EventHandle event;
    const Card* card = nullptr;
  };
  using Ring = std::array<Native, EventRing<const Native>::kRuns>;

  absl::StatusOr<const Native*> NativeOf(const Card& card, uint32_t run);
  absl::Status Poll(const Native& native, uint32_t run, absl::Time deadline);

  CpuEvent asked_;
  EventRing<const Native> ring_;
  std::vector<std::unique_ptr<Ring>> natives_;  // by card: CUDA records an event only on the card that made it
};

}  // namespace belfry
