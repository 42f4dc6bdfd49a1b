// What DeviceOptions say about GPUs, in figures. Plain arithmetic: needs no CUDA and no GPU.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device/device_set.h"

namespace belfry {

// InvalidArgument names the option that is wrong whatever the machine has.
absl::Status CheckGpuOptions(const DeviceOptions& options);

// CUDA's numbers of the cards to use, in the order in which they become devices: those of visible_gpus, or all of
// `found`. InvalidArgument if it names one that is not there.
absl::StatusOr<std::vector<int>> VisibleCards(const DeviceOptions& options, int found);

// Device /gpu:id is part `part` of virtual_gpus parts of the card at `card` in VisibleCards.
struct GpuPlace {
  int card = 0, part = 0;
  bool operator==(const GpuPlace&) const = default;
};
inline GpuPlace PlaceOfGpu(const DeviceOptions& options, int id) {
  return {id / options.virtual_gpus, id % options.virtual_gpus};
}

// The bytes that each device on a card may use, a multiple of 256: what gpu_memory says, or an even share of what is
// free, less what the driver and libraries need beside us. `total` and `free` are the card's. InvalidArgument if all
// virtual_gpus devices together would not fit.
absl::StatusOr<size_t> GpuMemoryLimit(const DeviceOptions& options, size_t total, size_t free);

}  // namespace belfry
