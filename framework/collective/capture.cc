#include "framework/collective/capture.h"

#include <thread>

namespace belfry {

// Enqueue writes enqueuing_ and then reads ended_; End writes ended_ and then reads enqueuing_. Both are sequentially
// consistent, so at least one of them sees the other, and End never frees work that is being enqueued.
absl::Status CapturedStep::Enqueue(Stream& stream) {
  enqueuing_.store(true);
  absl::Status status = ended_.load() ? absl::CancelledError("the captured step was aborted by a failure elsewhere")
                                      : work_->Enqueue(stream);
  if (status.ok()) {
    const uint32_t replay = replays_.load() + 1;
    stream.Record(*done_, replay);
    replays_.store(replay);
  }
  enqueuing_.store(false);
  return status;
}

absl::Status CapturedStep::Await(absl::Time deadline) {
  const uint32_t replays = replays_.load();
  return replays == 0 ? absl::OkStatus() : done_->Wait(replays, deadline);
}

void CapturedStep::End() {
  ended_.store(true);
  while (enqueuing_.load()) std::this_thread::yield();
  if (!released_.test_and_set()) work_.reset();
}

}  // namespace belfry
