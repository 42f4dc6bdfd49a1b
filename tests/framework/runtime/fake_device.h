// Devices with nothing but a name, for tests that run nothing.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/device/device_set.h"

namespace belfry {

class FakeDevice final : public Device {
 public:
  FakeDevice(DeviceName name, std::string description) : name_(std::move(name)), description_(std::move(description)) {}
  const DeviceName& name() const override { return name_; }
  std::string description() const override { return description_; }
  int threads() const override { return 1; }
  bool asynchronous() const override { return false; }
  int physical_id() const override { return type() == "GPU" ? *name_.id : 0; }
  DeviceCounters counters() const override { return {}; }
  absl::StatusOr<void*> Allocate(size_t) override { return absl::UnimplementedError("a fake device has no memory"); }
  void Deallocate(void*, size_t) override {}
  absl::StatusOr<void*> AllocateHost(size_t bytes) override { return Allocate(bytes); }
  void DeallocateHost(void*, size_t) override {}
  absl::StatusOr<std::unique_ptr<Stream>> NewStream(StreamKind) override {
    return absl::UnimplementedError("a fake device has no streams");
  }
  std::unique_ptr<Event> NewEvent() override { return nullptr; }

 private:
  const DeviceName name_;
  const std::string description_;
};

inline std::unique_ptr<Device> MakeFakeDevice(absl::string_view type, int id, std::string description = "fake",
                                              int task = 0) {
  return std::make_unique<FakeDevice>(DeviceName::Full("localhost", 0, task, type, id), std::move(description));
}

// CPU devices 0 ... cpus-1 and GPUs 0 ... gpus-1.
inline DeviceSet FakeDevices(int cpus, int gpus) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < cpus; ++i) devices.push_back(MakeFakeDevice("CPU", i));
  for (int i = 0; i < gpus; ++i) devices.push_back(MakeFakeDevice("GPU", i));
  return DeviceSet(std::move(devices));
}

}  // namespace belfry
