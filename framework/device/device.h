// Where work runs: memory, ordered queues of work, order between queues. Knows nothing of graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/device_name.h"

namespace belfry {

class Device;

// A point in a stream that others wait for. Counts the runs of a plan: Record(run) by one stream, Wait(run) by any
// number of others; runs count up, and may wrap around at 2^32. Made by a Device and used with streams of any device.
// Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  // Blocks the calling thread until the event was recorded for `run` or a later one. Cancelled after Cancel();
  // DeadlineExceeded once `deadline` has passed.
  virtual absl::Status Wait(uint32_t run, absl::Time deadline) = 0;
  // Marks `run` as reached, from the host.
  virtual void Record(uint32_t run) = 0;
  // Wakes all waiters, now and until Reset, with Cancelled.
  virtual void Cancel() = 0;
  // Not cancelled any more, and recorded for `run`. REQUIRES: nobody waits.
  virtual void Reset(uint32_t run) = 0;
};

enum class StreamKind { kCompute, kCopyIn, kCopyOut, kCollective };

// An ordered queue of work on one device. On a CPU device the queue is the thread that calls it: work is done when the
// call returns. On a GPU calls enqueue, and the host runs ahead. One thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual StreamKind kind() const = 0;
  // Later work on this stream begins once `event` was recorded for `run`.
  virtual absl::Status Wait(Event& event, uint32_t run, absl::Time deadline) = 0;
  // Records `run` once all earlier work on this stream is done.
  virtual void Record(Event& event, uint32_t run) = 0;
  // Copies `bytes` between this stream's device and host memory or another device's.
  virtual absl::Status Copy(void* to, const Device& to_device, const void* from, const Device& from_device,
                            size_t bytes) = 0;
  // Blocks the calling thread until all work on this stream is done, and reports its first asynchronous error.
  virtual absl::Status Synchronize() = 0;
};

// What a device holds and did. A snapshot.
struct DeviceCounters {
  size_t bytes_in_use = 0;
  size_t peak_bytes_in_use = 0;
  int64_t allocations = 0;  // ever made
  size_t memory_limit = 0;  // bytes; all of the machine's memory for a CPU device
};

// One device of this process: a logical CPU device with its share of the cores, or a GPU. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  // All five fields are set: /job:localhost/replica:0/task:0/device:CPU:0.
  virtual const DeviceName& name() const = 0;
  absl::string_view type() const { return *name().type; }
  // For a person: what it is. "2 threads of Intel(R) Xeon(R)"; "device: 0, name: Tesla K40c, pci bus id: 0000:05:00.0".
  virtual std::string description() const = 0;
  // Threads that a kernel on this device may use; 1 for a GPU.
  virtual int threads() const = 0;
  // True if streams enqueue, so that one host thread serves all streams; false if each stream needs a thread of its
  // own.
  virtual bool asynchronous() const = 0;
  virtual DeviceCounters counters() const = 0;

  // `bytes` of this device's memory, aligned to 64 bytes; null for 0. ResourceExhausted names the device and the
  // figures.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  virtual void Deallocate(void* memory, size_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream(StreamKind kind) = 0;
  virtual std::unique_ptr<Event> NewEvent() = 0;
};

// A block of a device's memory, given back when it goes.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  static absl::StatusOr<DeviceMemory> Allocate(Device& device, size_t bytes) {
    absl::StatusOr<void*> memory = device.Allocate(bytes);
    if (!memory.ok()) return memory.status();
    return DeviceMemory(&device, *memory, bytes);
  }
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() {
    if (device_ != nullptr) device_->Deallocate(data_, bytes_);
  }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  DeviceMemory(Device* device, void* data, size_t bytes) : device_(device), data_(data), bytes_(bytes) {}
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace belfry
