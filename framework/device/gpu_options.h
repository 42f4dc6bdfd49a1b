// The GPU options of DeviceOptions as numbers. Plain arithmetic; needs neither CUDA nor a GPU.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device/device_set.h"

namespace belfry {

// InvalidArgument for options that would be wrong on any machine; names the option.
absl::Status CheckGpuOptions(const DeviceOptions& options);

// CUDA ordinals of the cards to use, in the order in which they become devices: those of visible_gpus, or all of
// `found`. InvalidArgument if visible_gpus names a missing card.
absl::StatusOr<std::vector<int>> VisibleCards(const DeviceOptions& options, int found);

// The visible `cards` that this process may open for `gpus` devices, by options.local_rank: at least as many as it
// needs, or all if there are too few. InvalidArgument if too few are left by the processes before it.
absl::StatusOr<std::vector<int>> CardsOfProcess(const DeviceOptions& options, int gpus, std::vector<int> cards);

// The position of device /gpu:id: part `part` of the virtual_gpus parts of card `card`, an index into VisibleCards.
struct GpuPlace {
  int card = 0, part = 0;
  bool operator==(const GpuPlace&) const = default;
};
inline GpuPlace PlaceOfGpu(const DeviceOptions& options, int id) {
  return {id / options.virtual_gpus, id % options.virtual_gpus};
}

// Bytes that each device on a card may use, a multiple of 256: the amount in gpu_memory, or else an even share of the
// free memory less a margin for the driver and libraries. `total` and `free` are the card's. If all
// virtual_gpus devices together do not fit: ResourceExhausted, or InvalidArgument if they exceed even the whole card.
absl::StatusOr<size_t> GpuMemoryLimit(const DeviceOptions& options, size_t total, size_t free);

}  // namespace belfry
