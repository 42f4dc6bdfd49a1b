#include "framework/device/cuda/cuda_event.h"

#include <algorithm>
#include <thread>

#include "absl/time/clock.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"

namespace belfry {
namespace {

// A hand-over within a step takes some microseconds; sleeping takes fifty or more.
constexpr absl::Duration kSpin = absl::Microseconds(200);
constexpr absl::Duration kShortestSleep = absl::Microseconds(10), kLongestSleep = absl::Microseconds(100);

}  // namespace

CudaEvent::CudaEvent(const Card& card) {
  for (uint32_t run = 0; run < EventRing<const Native>::kRuns; ++run) {
    if (!NativeOf(card, run).ok()) return;  // Record makes it then, and reports the error.
  }
}

absl::StatusOr<const CudaEvent::Native*> CudaEvent::NativeOf(const Card& card, uint32_t run) {
  const auto index = static_cast<size_t>(card.ordinal());
  if (natives_.size() <= index) natives_.resize(index + 1);
  if (natives_[index] == nullptr) natives_[index] = std::make_unique<Ring>();
  Native& native = (*natives_[index])[EventRing<const Native>::SlotOf(run)];
  if (native.event == nullptr) {
    ASSIGN_OR_RETURN(native.event, MakeEvent(card));
    native.card = &card;
  }
  return &native;
}

absl::Status CudaEvent::RecordOn(const Card& card, cudaStream_t stream, uint32_t run) {
  const absl::StatusOr<const Native*> native = NativeOf(card, run);
  cudaSetDevice(card.ordinal());
  absl::Status status = native.status();
  if (native.ok()) status = card.Check(cudaEventRecord((*native)->event.get(), stream), "cudaEventRecord");
  ring_.Set(run, status.ok() ? *native : nullptr);
  asked_.Record(run);
  return status;
}

absl::Status CudaEvent::WaitOn(const Card& card, cudaStream_t stream, uint32_t run, absl::Time deadline) {
  RETURN_IF_ERROR(asked_.Wait(run, deadline));
  const Native* const native = ring_.At(run);
  if (native == nullptr) return absl::OkStatus();
  cudaSetDevice(card.ordinal());
  return card.Check(cudaStreamWaitEvent(stream, native->event.get(), 0), "cudaStreamWaitEvent");
}

absl::Status CudaEvent::Wait(uint32_t run, absl::Time deadline) {
  RETURN_IF_ERROR(asked_.Wait(run, deadline));
  const Native* const native = ring_.At(run);
  return native == nullptr ? absl::OkStatus() : Poll(*native, run, deadline);
}

absl::Status CudaEvent::Poll(const Native& native, uint32_t run, absl::Time deadline) {
  absl::Time begin = absl::InfiniteFuture();
  cudaSetDevice(native.card->ordinal());
  while (true) {
    const cudaError_t error = cudaEventQuery(native.event.get());
    if (error != cudaErrorNotReady) return native.card->Check(error, "cudaEventQuery");
    cudaGetLastError();  // "Not ready" is kept as an error too, and the thread's next kernel launch would report it.
    RETURN_IF_ERROR(asked_.Wait(run, absl::InfinitePast()));  // Checks for cancellation only.
    const absl::Time now = SteadyNow();
    if (now >= deadline) return absl::DeadlineExceededError("the step exceeded its deadline");
    begin = std::min(begin, now);
    if (now - begin < kSpin) {
      std::this_thread::yield();
    } else {
      absl::SleepFor(std::min({std::max((now - begin) / 64, kShortestSleep), kLongestSleep, deadline - now}));
    }
  }
}

void CudaEvent::Record(uint32_t run) {
  ring_.Set(run, nullptr);
  asked_.Record(run);
}

void CudaEvent::Cancel() { asked_.Cancel(); }

void CudaEvent::Reset(uint32_t run) {
  ring_.Reset(run);
  asked_.Reset(run);
}

}  // namespace belfry
