// A captured step that contains collectives.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/device/device.h"

namespace belfry {

// Shared by the step that replays it and by its collectives, which end it before they release the resources that the
// captured work uses. Enqueue and WaitOn: one thread at a time. The rest is thread-safe, also against those two.
class CapturedStep {
 public:
  // `device`: of the stream that captured.
  CapturedStep(std::unique_ptr<CapturedWork> work, Device& device) : work_(std::move(work)), done_(device.NewEvent()) {}

  // Enqueues one replay. Cancelled if the capture has been ended.
  absl::Status Enqueue(Stream& stream);
  // Makes later work on `other` wait for the last replay.
  absl::Status WaitOn(Stream& other, absl::Time deadline) { return other.Wait(*done_, replays_.load(), deadline); }

  // OK once all replays are done; DeadlineExceeded.
  absl::Status Await(absl::Time deadline);
  // Releases the captured work and forbids further replays. A replay in flight continues.
  void End();
  bool ended() const { return ended_.load(std::memory_order_acquire); }

 private:
  std::unique_ptr<CapturedWork> work_;
  const std::unique_ptr<Event> done_;  // counts replays
  std::atomic<uint32_t> replays_{0};
  std::atomic<bool> ended_{false};
  std::atomic<bool> enqueuing_{false};
  std::atomic_flag released_;
};

}  // namespace belfry
