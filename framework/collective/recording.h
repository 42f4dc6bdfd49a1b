// A recorded step that has collectives in it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/device/device.h"

namespace belfry {

// Shared by the step, which replays it, and by its collectives, which end it once it must not be replayed any more: it
// holds what they use, and that cannot go before it. One thread at a time in Enqueue and WaitOn; the rest: any thread,
// beside them, too.
class Recording {
 public:
  // `device`: of the stream that recorded.
  Recording(std::unique_ptr<RecordedWork> work, Device& device) : work_(std::move(work)), done_(device.NewEvent()) {}

  // Enqueues all of it. Cancelled if it has ended.
  absl::Status Enqueue(Stream& stream);
  // What is enqueued on `other` from now on begins once the last replay is done.
  absl::Status WaitOn(Stream& other, absl::Time deadline) { return other.Wait(*done_, replays_.load(), deadline); }

  // OK once all replays are done; DeadlineExceeded.
  absl::Status Await(absl::Time deadline);
  // Gives back what was recorded. A replay that is under way goes on.
  void End();
  bool ended() const { return ended_.load(std::memory_order_acquire); }

 private:
  std::unique_ptr<RecordedWork> work_;
  const std::unique_ptr<Event> done_;  // counts replays
  std::atomic<uint32_t> replays_{0};
  std::atomic<bool> ended_{false};
  std::atomic<bool> enqueuing_{false};
  std::atomic_flag given_back_;
};

}  // namespace belfry
