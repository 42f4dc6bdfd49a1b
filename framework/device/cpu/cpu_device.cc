#include "framework/device/cpu/cpu_device.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/cores.h"
#include "framework/base/machine/processor.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/tensor.h"
#include "framework/device/cpu/cpu_event.h"

namespace belfry {
namespace {

class CpuStream final : public Stream {
 public:
  explicit CpuStream(StreamKind kind) : kind_(kind) {}
  StreamKind kind() const override { return kind_; }
  absl::Status Wait(Event& event, uint32_t run, absl::Time deadline) override { return event.Wait(run, deadline); }
  void Record(Event& event, uint32_t run) override { event.Record(run); }
  absl::Status Copy(void* to, const Device&, const void* from, const Device&, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status Error() override { return absl::OkStatus(); }

 private:
  const StreamKind kind_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(DeviceName name, int threads, std::vector<int> cores, MathMode math, const std::string& processor)
      : name_(std::move(name)),
        description_(absl::StrCat(threads, threads == 1 ? " thread of " : " threads of ", processor)),
        threads_(threads),
        cores_(std::move(cores)),
        math_(math),
        limit_(static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE))) {}

  const DeviceName& name() const override { return name_; }
  std::string description() const override { return description_; }
  int threads() const override { return threads_; }
  absl::Span<const int> cores() const override { return cores_; }
  MathMode math() const override { return math_; }
  bool asynchronous() const override { return false; }
  DeviceCounters counters() const override { return {in_use_.load(), peak_.load(), allocations_.load(), limit_}; }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    size_t used = in_use_.load();
    do {
      if (bytes > limit_ - used) {
        return CannotAllocate(bytes, used);
      }
    } while (!in_use_.compare_exchange_weak(used, used + bytes));
    void* const memory = AllocateAligned(bytes);
    if (memory == nullptr) {
      in_use_.fetch_sub(bytes);
      return CannotAllocate(bytes, used);
    }
    const size_t now = used + bytes;
    size_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
    allocations_.fetch_add(1);
    return memory;
  }

  void Deallocate(void* memory, size_t bytes) override {
    FreeAligned(memory);
    in_use_.fetch_sub(bytes);
  }

  absl::StatusOr<void*> AllocateHost(size_t bytes) override { return Allocate(bytes); }
  void DeallocateHost(void* memory, size_t bytes) override { Deallocate(memory, bytes); }

  absl::StatusOr<std::unique_ptr<Stream>> NewStream(StreamKind kind) override {
    return std::make_unique<CpuStream>(kind);
  }
  std::unique_ptr<Event> NewEvent() override { return std::make_unique<CpuEvent>(); }

 private:
  absl::Status CannotAllocate(size_t bytes, size_t used) const {
    return OutOfMemory(
        absl::StrCat(name_.ToString(), " cannot allocate ", bytes, " bytes beside ", used, " that are in use"));
  }

  const DeviceName name_;
  const std::string description_;
  const int threads_;
  const std::vector<int> cores_;
  const MathMode math_;
  const size_t limit_;
  std::atomic<size_t> in_use_{0}, peak_{0};
  std::atomic<int64_t> allocations_{0};
};

}  // namespace

std::vector<std::unique_ptr<Device>> OpenCpuDevices(int count, const DeviceOptions& options) {
  std::string processor = ProcessorField("model name");
  if (processor.empty()) processor = "CPU";
  const std::vector<int> cores = AvailableCores();
  const auto available = static_cast<int>(cores.size());
  const int threads = options.cpu_threads > 0 ? options.cpu_threads : std::max(1, UsableCores() / count);
  // If cores are left over, other programs may be running on them, or on these, so threads are not bound.
  const bool bound = options.bind_threads && count > 1 && threads * count == available;
  std::vector<std::unique_ptr<Device>> devices;
  for (int id = 0; id < count; ++id) {
    std::vector<int> own;
    if (bound) own.assign(cores.begin() + id * threads, cores.begin() + (id + 1) * threads);
    devices.push_back(std::make_unique<CpuDevice>(DeviceName::Full(options.job, 0, options.task, "CPU", id), threads,
                                                  std::move(own), options.math, processor));
  }
  return devices;
}

}  // namespace belfry
