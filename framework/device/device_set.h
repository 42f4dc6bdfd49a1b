// The devices that a program uses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/device/device.h"

namespace belfry {

struct DeviceOptions {
  int cpu_threads = 0;  // threads of each CPU device, up to 1024; 0: an even share of the cores
  // Several CPU devices whose threads take all cores of this process keep to cores of their own: the nth to the nth
  // share of AvailableCores(), so that towers stay out of each other's caches and NUMA nodes.
  bool bind_threads = true;

  // Of GPUs; a card is one piece of hardware.
  int virtual_gpus = 1;    // devices that each card is opened as: /gpu:0 and /gpu:1 on the first card for 2
  std::string gpu_memory;  // of each device: "0.4" of its card, or "4GiB", "4096MiB", "4294967296"; "": an even share
                           // of what is free, but a margin for the driver and libraries
  bool gpu_memory_growth = true;   // false: all of it is reserved when the device is opened, true: as it is needed
  std::string visible_gpus;        // cards to use, in this order, by CUDA's numbers: "0,2"; "": all
  bool peer_through_host = false;  // copies between cards take a detour through host memory
  MathMode math;
};

// Devices opened together. Owns them; movable; must outlive the sessions that use it. Reading it is thread-safe.
class DeviceSet {
 public:
  // "cpu:4" opens four logical CPU devices, /cpu:0 to /cpu:3; "gpu:2" two GPUs, and one CPU device beside them, which
  // every set has; "cpu:2,gpu:2" both. Without a number, one. InvalidArgument says what is wrong with the text or the
  // options, or how many GPUs there are when more are asked for.
  static absl::StatusOr<DeviceSet> Open(absl::string_view spec, const DeviceOptions& options = {});

  DeviceSet() = default;
  // Of devices that were opened one by one: other back-ends, fakes in tests. REQUIRES: their names are full and
  // distinct.
  explicit DeviceSet(std::vector<std::unique_ptr<Device>> devices);

  // CPU devices first, each kind by id.
  int size() const { return static_cast<int>(devices_.size()); }
  Device& device(int index) const { return *devices_[index]; }
  // The index of the first device that `name` may mean, or -1.
  int Find(const DeviceName& name) const;
  // The devices that carry a tower each: the GPUs if there are any, else the CPU devices. Indices into this set.
  std::vector<int> TowerDevices() const;
  // "Device mapping:" and a line for each of TowerDevices(): "/job:localhost/replica:0/task:0/gpu:0 -> device: 0, name:
  // ...".
  std::string MappingText() const;

 private:
  std::vector<std::unique_ptr<Device>> devices_;
};

// Opens GPUs /gpu:0 ... /gpu:count-1, with the CUDA module (framework/base/module.h). InvalidArgument if there are not
// as many; it says how many there are, or why there is none. REQUIRES: CheckGpuOptions(options).ok().
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenGpuDevices(int count, const DeviceOptions& options);
// The number of GPUs that it can open, at least 1; NotFound says why there is none. REQUIRES: as above.
absl::StatusOr<int> CountGpuDevices(const DeviceOptions& options);

}  // namespace belfry
