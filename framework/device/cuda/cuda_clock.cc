#include "framework/device/cuda/cuda_clock.h"

#include <utility>

#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/device/cuda/native.h"

namespace belfry {

absl::StatusOr<std::unique_ptr<CudaClock>> CudaClock::Make(const Card& card, int stamps) {
  ASSIGN_OR_RETURN(StreamHandle stream, MakeStream(card));
  auto clock = std::unique_ptr<CudaClock>(new CudaClock(card, std::move(stream)));
  for (int i = 0; i < stamps; ++i) {
    ASSIGN_OR_RETURN(clock->stamps_.emplace_back(), MakeEvent(card, cudaEventDefault));
  }
  ASSIGN_OR_RETURN(clock->zero_, MakeEvent(card, cudaEventDefault));
  ASSIGN_OR_RETURN(clock->trial_, MakeEvent(card, cudaEventDefault));
  RETURN_IF_ERROR(clock->Restart());
  return clock;
}

absl::Status CudaClock::Restart() {
  RETURN_IF_ERROR(card_.MakeCurrent());
  // The card records between two readings of the host's clock. The first turn wakes the card; afterwards the readings
  // are close, unless the operating system gave the core to another thread in between.
  absl::Duration best = absl::InfiniteDuration();
  for (int turn = 0; turn < 8 && best > absl::Microseconds(50); ++turn) {
    const absl::Time before = SteadyNow();
    RETURN_IF_ERROR(card_.Check(cudaEventRecord(trial_.get(), stream_.get()), "cudaEventRecord"));
    RETURN_IF_ERROR(card_.Check(cudaEventSynchronize(trial_.get()), "cudaEventSynchronize"));
    const absl::Duration between = SteadyNow() - before;
    if (turn == 0 || between >= best) continue;
    best = between;
    zero_time_ = before + between / 2;
    std::swap(zero_, trial_);
  }
  return absl::OkStatus();
}

absl::Status CudaClock::Stamp(Stream& stream, int i) {
  if (i == 0) RETURN_IF_ERROR(Restart());
  return card_.Check(cudaEventRecord(stamps_[i].get(), NativeStream(stream)), "cudaEventRecord");
}

absl::StatusOr<absl::Time> CudaClock::Read(int i) {
  float milliseconds = 0;
  RETURN_IF_ERROR(card_.MakeCurrent());
  RETURN_IF_ERROR(
      card_.Check(cudaEventElapsedTime(&milliseconds, zero_.get(), stamps_[i].get()), "cudaEventElapsedTime"));
  return zero_time_ + absl::Milliseconds(static_cast<double>(milliseconds));
}

}  // namespace belfry
