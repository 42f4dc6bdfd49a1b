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

// Waits in two stages: until the recording of a run has been requested, which the host counts, and until its work is
// done, which one of a ring of CUDA events tells.
class CudaEvent final : public Event {
 public:
  // `card` is the card of the device that makes the event, and usually of the streams that record it.
  explicit CudaEvent(const Card& card);

  absl::Status Wait(uint32_t run, absl::Time deadline) override;
  void Record(uint32_t run) override;
  void Cancel() override;
  void Reset(uint32_t run) override;

  // Records `run` on a stream of `card`. Even after an error the run counts as recorded, so that nobody waits forever.
  absl::Status RecordOn(const Card& card, cudaStream_t stream, uint32_t run);
  // Makes a stream of `card` wait for `run`.
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
  std::vector<std::unique_ptr<Ring>> natives_;  // by card ordinal; CUDA can record an event only on the card that
                                                // created it
};

}  // namespace belfry
