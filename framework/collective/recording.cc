#include "framework/collective/recording.h"

#include <thread>

namespace belfry {

// Either this sees that it has ended, or End sees that this is under way, or both: each writes before it reads,
// sequentially consistent.
absl::Status Recording::Enqueue(Stream& stream) {
  enqueuing_.store(true);
  absl::Status status = ended_.load() ? absl::CancelledError("the recorded step was ended by a failure elsewhere")
                                      : work_->Enqueue(stream);
  if (status.ok()) {
    const uint32_t replay = replays_.load() + 1;
    stream.Record(*done_, replay);
    replays_.store(replay);
  }
  enqueuing_.store(false);
  return status;
}

absl::Status Recording::Await(absl::Time deadline) {
  const uint32_t replays = replays_.load();
  return replays == 0 ? absl::OkStatus() : done_->Wait(replays, deadline);
}

void Recording::End() {
  ended_.store(true);
  while (enqueuing_.load()) std::this_thread::yield();
  if (!given_back_.test_and_set()) work_.reset();
}

}  // namespace belfry
