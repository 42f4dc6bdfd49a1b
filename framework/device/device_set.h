// Device sets: the devices that a program uses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/device/device.h"

namespace belfry {

struct DeviceOptions {
  int cpu_threads = 0;  // threads of each CPU device, up to 1024; 0: an even share of UsableCores()
  // If several CPU devices use all cores of this process between them, each is bound to its own: the n-th device to the
  // n-th share of AvailableCores(). Towers then stay out of each other's caches and NUMA nodes.
  bool bind_threads = true;
  // True for a program whose processes are meant to be independent if a launcher (mpirun, srun) starts several.
  // Otherwise they could not open devices: each would train a model of its own.
  bool ignore_launcher = false;
  std::string job = "localhost";  // in the devices' names, as is
  int task = 0;                   // the number of this process in the job

  // GPU options. A card is one physical GPU.
  // The number of this process among its machine's, from 0: it leaves as many cards as it opens to each process
  // before it. But if just as many are visible, they are its own (srun --gpus-per-task), and it opens them all.
  int local_rank = 0;
  bool several_processes = false;  // the GPUs of other processes take part, so that none is alone (Device::only_gpu)
  int virtual_gpus = 1;            // devices to open each card as; with 2, /gpu:0 and /gpu:1 are on the first card
  std::string gpu_memory = {};  // memory of each device: "0.4" of its card, or "4GiB", "4096MiB", "4294967296"; "": an
                                // even share of the free memory, less a margin for the driver and libraries
  bool gpu_memory_growth = true;   // false: reserve all of it when opening the device; true: grow on demand
  std::string visible_gpus = {};   // CUDA ordinals of the cards to use, in this order: "0,2"; "": all
  bool peer_through_host = false;  // copy between cards through host memory
  MathMode math = {};
};

// A set of devices opened together, which it owns. Movable; must outlive the sessions that use it. Thread-safe to read.
class DeviceSet {
 public:
  // "cpu:4" opens four logical CPU devices, /cpu:0 to /cpu:3; "gpu:2" two GPUs, plus one CPU device, which every set
  // has; "cpu:2,gpu:2" both. A type without a number means one. InvalidArgument says what is wrong with the text or the
  // options, or how many GPUs there are if more were requested. FailedPrecondition in one of several processes that a
  // launcher started (framework/base/launcher.h), unless options.ignore_launcher.
  static absl::StatusOr<DeviceSet> Open(absl::string_view spec, const DeviceOptions& options = {});

  DeviceSet() = default;
  // A set of devices that were opened one by one, such as other back-ends or fakes in tests. REQUIRES: their names are
  // full and distinct.
  explicit DeviceSet(std::vector<std::unique_ptr<Device>> devices);

  // CPU devices come first; within a type, devices are ordered by id.
  int size() const { return static_cast<int>(devices_.size()); }
  Device& device(int index) const { return *devices_[index]; }
  // The index of the first device that matches `name`, or -1.
  int Find(const DeviceName& name) const;
  // Indices of the devices that carry one tower each: the GPUs if there are any, otherwise the CPU devices.
  std::vector<int> TowerDevices() const;
  // "Device mapping:" and one line for each of TowerDevices(): "/job:localhost/replica:0/task:0/gpu:0 -> device: 0,
  // name: ...".
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
