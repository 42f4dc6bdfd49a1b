#include "framework/device/cuda/memory.h"

#include "framework/base/status.h"
#include "framework/device/cuda/handles.h"

namespace belfry {

absl::StatusOr<void*> CardMemory::Get(size_t bytes) {
  ASSIGN_OR_RETURN(DeviceHandle memory, MakeDeviceMemory(card_, bytes));
  return memory.release();
}

void CardMemory::Return(void* block, size_t) {
  card_.MakeCurrent().IgnoreError();
  card_.Check(cudaFree(block), "cudaFree").IgnoreError();
}

}  // namespace belfry
