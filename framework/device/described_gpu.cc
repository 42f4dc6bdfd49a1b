#include "framework/device/described_gpu.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/alignment.h"
#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "framework/device/cpu/cpu_device.h"
#include "framework/device/cpu/cpu_event.h"

namespace belfry {
namespace {

constexpr int kMaxGpus = 1024;

class DescribedGpu final : public Device {
 public:
  DescribedGpu(DeviceName name, GpuDescription description, MathMode math, bool only)
      : name_(std::move(name)), description_(std::move(description)), math_(math), only_(only) {}

  const DeviceName& name() const override { return name_; }
  std::string description() const override { return absl::StrCat(description_.model, ", described only"); }
  int threads() const override { return 1; }
  int physical_id() const override { return *name_.id; }
  bool asynchronous() const override { return true; }
  DeviceCounters counters() const override {
    const MutexLock lock(mutex_);
    return {.bytes_in_use = in_use_,
            .peak_bytes_in_use = peak_,
            .allocations = allocations_,
            .memory_limit = description_.memory_bytes};
  }
  MathMode math() const override { return math_; }
  bool only_gpu() const override { return only_; }
  std::string model() const override { return description_.model; }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    const MutexLock lock(mutex_);
    if (bytes > description_.memory_bytes - in_use_) {
      return absl::ResourceExhaustedError(absl::StrCat(name_.ToString(), " (", description_.model, ") has no room for ",
                                                       bytes, " bytes: ", in_use_, " of its ",
                                                       description_.memory_bytes, " bytes are in use"));
    }
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    ++allocations_;
    next_ += AlignUp(bytes);
    return reinterpret_cast<void*>(next_ - AlignUp(bytes));
  }
  void Deallocate(void* memory, size_t bytes) override {
    if (memory == nullptr) return;
    const MutexLock lock(mutex_);
    in_use_ -= bytes;
  }
  absl::StatusOr<void*> AllocateHost(size_t bytes) override {
    if (bytes == 0) return nullptr;
    return CannotRun();
  }
  void DeallocateHost(void*, size_t) override {}
  absl::StatusOr<std::unique_ptr<Stream>> NewStream(StreamKind) override { return CannotRun(); }
  std::unique_ptr<Event> NewEvent() override { return std::make_unique<CpuEvent>(); }
  bool CompilesKernels() override { return true; }  // so that plans are those of the card with NVRTC

  const GpuDescription& about() const { return description_; }

 private:
  absl::Status CannotRun() const {
    return absl::FailedPreconditionError(absl::StrCat(name_.ToString(), " is a description of ", description_.model,
                                                      ", which can be planned for but runs nothing"));
  }

  const DeviceName name_;
  const GpuDescription description_;
  const MathMode math_;
  const bool only_;
  mutable Mutex mutex_;
  size_t in_use_ ABSL_GUARDED_BY(mutex_) = 0, peak_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t allocations_ ABSL_GUARDED_BY(mutex_) = 0;
  uintptr_t next_ ABSL_GUARDED_BY(mutex_) = uintptr_t{1} << 62;  // no host address has this bit
};

}  // namespace

absl::StatusOr<DeviceSet> OpenDescribedGpus(absl::string_view spec, const GpuDescription& description,
                                            const DeviceOptions& options) {
  int count = 0;
  absl::string_view number = spec;
  const bool parsed = absl::ConsumePrefix(&number, "gpu:") && absl::SimpleAtoi(number, &count);
  if (!parsed || count < 1 || count > kMaxGpus) {
    return absl::InvalidArgumentError(
        absl::StrCat("Cannot describe devices '", spec, "'; expected gpu:N, with N from 1 to ", kMaxGpus));
  }
  RETURN_IF_ERROR(DeviceSet::Open("cpu:1", options).status());  // checks the options
  std::vector<std::unique_ptr<Device>> devices = OpenCpuDevices(1, options);
  for (int id = 0; id < count; ++id) {
    devices.push_back(std::make_unique<DescribedGpu>(DeviceName::Full(options.job, 0, options.task, "GPU", id),
                                                     description, options.math,
                                                     count == 1 && !options.several_processes));
  }
  return DeviceSet(std::move(devices));
}

const GpuDescription* DescriptionOf(const Device& device) {
  const auto* const described = dynamic_cast<const DescribedGpu*>(&device);
  return described == nullptr ? nullptr : &described->about();
}

}  // namespace belfry
