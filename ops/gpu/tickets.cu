#include "ops/gpu/tickets.h"

#include <utility>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"

namespace belfry::ops {

absl::StatusOr<std::shared_ptr<uint32_t>> TakeTickets(Device& device, int64_t count) {
  if (count == 0) return std::shared_ptr<uint32_t>();
  const size_t bytes = static_cast<size_t>(count) * sizeof(uint32_t);
  ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Allocate(device, bytes));
  ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device.NewStream(StreamKind::kCompute));
  RETURN_IF_ERROR(gpu::SetBytes(*stream, memory.data(), 0, bytes));
  RETURN_IF_ERROR(stream->Synchronize());
  auto owner = std::make_shared<DeviceMemory>(std::move(memory));
  return std::shared_ptr<uint32_t>(owner, static_cast<uint32_t*>(owner->data()));
}

}  // namespace belfry::ops
