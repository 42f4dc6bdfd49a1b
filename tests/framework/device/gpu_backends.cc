#include "tests/framework/device/backend.h"

namespace belfry {

std::vector<DeviceBackend> DeviceBackends() {
  return {
      {.name = "TwoCards", .spec = "gpu:2", .options = {.gpu_memory = "256MiB"}},
      {.name = "TwoCardsThroughTheHost",
       .spec = "gpu:2",
       .options = {.gpu_memory = "256MiB", .peer_through_host = true}},
      {.name = "VirtualGpus", .spec = "gpu:2", .options = {.virtual_gpus = 2, .gpu_memory = "256MiB"}},
      {.name = "ReservedAtOnce",
       .spec = "gpu:2",
       .options = {.virtual_gpus = 2, .gpu_memory = "256MiB", .gpu_memory_growth = false}},
  };
}

}  // namespace belfry
