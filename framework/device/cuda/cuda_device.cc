#include "framework/device/cuda/cuda_device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda/cuda_clock.h"
#include "framework/device/cuda/cuda_event.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/device/cuda/current.h"
#include "framework/device/cuda/handles.h"
#include "framework/device/cuda/native.h"

namespace belfry {

CudaDevice::CudaDevice(DeviceName name, std::shared_ptr<const Cards> cards, const Card& card, std::string description,
                       size_t limit, const MathMode& math)
    : cards_(std::move(cards)),
      card_(card),
      name_(std::move(name)),
      description_(std::move(description)),
      math_(math),
      memory_(card),
      allocator_(memory_, name_.ToString(), limit) {}

absl::StatusOr<void*> CudaDevice::AllocateHost(size_t bytes) {
  if (bytes == 0) return nullptr;
  absl::StatusOr<PinnedHandle> memory = MakePinnedMemory(card_, bytes);
  if (memory.ok()) return memory->release();
  return absl::Status(memory.status().code(),
                      absl::StrCat(name_.ToString(), " cannot allocate ", bytes,
                                   " bytes of page-locked host memory: ", memory.status().message()));
}

void CudaDevice::DeallocateHost(void* memory, size_t) {
  if (memory == nullptr) return;
  card_.MakeCurrent().IgnoreError();
  card_.Check(cudaFreeHost(memory), "cudaFreeHost").IgnoreError();
}

absl::StatusOr<std::unique_ptr<Stream>> CudaDevice::NewStream(StreamKind kind) {
  return CudaStream::Make(kind, card_, cards_->peers);
}

std::unique_ptr<Event> CudaDevice::NewEvent() { return std::make_unique<CudaEvent>(card_); }

absl::StatusOr<std::unique_ptr<StreamClock>> CudaDevice::NewClock(int stamps) { return CudaClock::Make(card_, stamps); }

absl::Status MakeCurrent(const Device& device) {
  const auto* const cuda = dynamic_cast<const CudaDevice*>(&device);
  if (cuda == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(device.name().ToString(), " is not a CUDA device"));
  }
  return cuda->card().MakeCurrent();
}

bool CanReach(const Device& a, const Device& b) {
  const auto* const first = dynamic_cast<const CudaDevice*>(&a);
  const auto* const second = dynamic_cast<const CudaDevice*>(&b);
  return first != nullptr && second != nullptr && first->Reaches(*second);
}

}  // namespace belfry
