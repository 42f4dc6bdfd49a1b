// Where work runs: memory, ordered queues of work, order between queues. Knows nothing of graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/device_name.h"
#include "framework/base/mutex.h"

namespace belfry {

class Device;

// A point in a stream that others wait for. Counts the runs of a plan: Record(run) by one stream, Wait(run) by any
// number of others; runs count up, and may wrap around at 2^32. Made by a Device and used with streams of any device.
// Remembers kEventRuns runs: what is waited for is at most so many before the last one recorded. May go before the work
// that is enqueued on asynchronous streams has recorded it or waited for it. Thread-safe.
inline constexpr uint32_t kEventRuns = 4;
class Event {
 public:
  virtual ~Event() = default;
  // Blocks the calling thread until the event was recorded for `run` or a later one, and the work before the record is
  // done. Cancelled after Cancel(); DeadlineExceeded once `deadline` has passed.
  virtual absl::Status Wait(uint32_t run, absl::Time deadline) = 0;
  // Marks `run` as reached, from the host.
  virtual void Record(uint32_t run) = 0;
  // Wakes all waiters, now and until Reset, with Cancelled.
  virtual void Cancel() = 0;
  // Not cancelled any more, and recorded for `run`. REQUIRES: nobody waits.
  virtual void Reset(uint32_t run) = 0;
};

enum class StreamKind { kCompute, kCopyIn, kCopyOut, kCollective };

class Stream;

// What streams were given while one of them recorded: a whole step, say, as one CUDA graph.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  // Enqueues all of it again. What follows on the stream begins once all is done. The work before must be done before
  // it is enqueued again, or be on the same stream.
  virtual absl::Status Enqueue(Stream& stream) = 0;
};

// An ordered queue of work on one device. On a CPU device the queue is the thread that calls it: work is done when the
// call returns. On a GPU calls enqueue, and the host runs ahead. One thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;  // waits for its work
  virtual StreamKind kind() const = 0;
  // Later work on this stream begins once `event` was recorded for `run`. An asynchronous device blocks the calling
  // thread no longer than until the call of Record, not until the work before it is done.
  virtual absl::Status Wait(Event& event, uint32_t run, absl::Time deadline) = 0;
  // Records `run` once all earlier work on this stream is done.
  virtual void Record(Event& event, uint32_t run) = 0;
  // Copies `bytes` between this stream's device and host memory or another device's.
  virtual absl::Status Copy(void* to, const Device& to_device, const void* from, const Device& from_device,
                            size_t bytes) = 0;
  // Blocks the calling thread until all work on this stream is done, and returns Error().
  virtual absl::Status Synchronize() = 0;
  // The first error of work that is done, and from now on OK again if the device can go on. Does not wait.
  virtual absl::Status Error() = 0;
  // From now on this thread's work for this stream, and for streams that wait for what is recorded on it, is kept and
  // not run, until EndRecording; before that, this stream must have waited for all the others again. Events that were
  // recorded in between may be waited for by these streams only, until they are recorded anew. After an error nothing
  // is kept. Unimplemented where a device cannot.
  virtual absl::Status BeginRecording() { return absl::UnimplementedError("this device does not record"); }
  virtual absl::StatusOr<std::unique_ptr<RecordedWork>> EndRecording() {
    return absl::UnimplementedError("this device does not record");
  }
};

// Tells when streams of one device got to points of their work. One thread at a time.
class StreamClock {
 public:
  virtual ~StreamClock() = default;
  // Notes, as stamp `i`, when all earlier work on `stream` is done. On a GPU it does not wait for it.
  virtual absl::Status Stamp(Stream& stream, int i) = 0;
  // When that was, by the host's clock; on a GPU as exact as its own clock, some half a microsecond. REQUIRES: stamp
  // `i` was noted, and the stream has come past it.
  virtual absl::StatusOr<absl::Time> Read(int i) = 0;
};

// What a device holds and did. A snapshot.
struct DeviceCounters {
  size_t bytes_in_use = 0;
  size_t peak_bytes_in_use = 0;
  int64_t allocations = 0;  // ever made
  size_t memory_limit = 0;  // bytes; all of the machine's memory for a CPU device
};

// How the kernels of a device may compute.
struct MathMode {
  bool tf32 = true;            // products of float32 with 10 bits of mantissa, where the hardware has them
  bool deterministic = false;  // the same bits at every run, whatever else runs: no kernels whose sums depend on timing
  bool winograd = true;        // convolutions on CPUs by Winograd's algorithm, where that is faster
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
  // The cores that its threads are bound to (BindThisThread); empty: none in particular.
  virtual absl::Span<const int> cores() const { return {}; }
  // Devices of the same type and physical id share memory and hardware: virtual GPUs on one card, and all CPU devices.
  virtual int physical_id() const { return 0; }
  // True if streams enqueue, so that one host thread serves all streams; false if each stream needs a thread of its
  // own.
  virtual bool asynchronous() const = 0;
  virtual DeviceCounters counters() const = 0;
  virtual MathMode math() const { return {}; }
  // No other GPU, on this card or another, was opened with it. Beside others no kernel may wait for blocks of its own
  // that have not begun: a kernel of another device, or one that waits for another device, could keep them out.
  virtual bool alone() const { return true; }
  // What is alike among devices of one speed: "NVIDIA H100 80GB HBM3".
  virtual std::string model() const { return std::string(type()); }

  // `bytes` of this device's memory, aligned to 64 bytes; null for 0. ResourceExhausted names the device and the
  // figures.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  // REQUIRES: no work that uses the memory is under way; the next Allocate may get it. So for host memory.
  virtual void Deallocate(void* memory, size_t bytes) = 0;
  // Host memory that copies and kernels of this device use as it is: page-locked for a GPU. Aligned to 64 bytes.
  virtual absl::StatusOr<void*> AllocateHost(size_t bytes) = 0;
  virtual void DeallocateHost(void* memory, size_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream(StreamKind kind) = 0;
  virtual std::unique_ptr<Event> NewEvent() = 0;
  // A clock of `stamps` stamps. This one waits for the stream's work and looks at the host's clock.
  virtual absl::StatusOr<std::unique_ptr<StreamClock>> NewClock(int stamps);

  // What the kernels of this device share, such as a library's handle: made by `make`, an
  // absl::StatusOr<std::unique_ptr<T>>(), when it is first asked for; gone with the device.
  template <class T, class Make>
  absl::StatusOr<T*> Shared(const Make& make) {
    const MutexLock lock(shared_mutex_);
    std::shared_ptr<void>& shared = shared_[std::type_index(typeid(T))];
    if (shared == nullptr) {
      absl::StatusOr<std::unique_ptr<T>> made = make();
      if (!made.ok()) return made.status();
      shared = *std::move(made);
    }
    return static_cast<T*>(shared.get());
  }

 private:
  Mutex shared_mutex_;
  std::map<std::type_index, std::shared_ptr<void>> shared_ ABSL_GUARDED_BY(shared_mutex_);
};

// A block of a device's memory, or of host memory for its copies, given back when it goes.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  static absl::StatusOr<DeviceMemory> Allocate(Device& device, size_t bytes) {
    return Make(device, device.Allocate(bytes), bytes, /*on_host=*/false);
  }
  static absl::StatusOr<DeviceMemory> AllocateHost(Device& device, size_t bytes) {
    return Make(device, device.AllocateHost(bytes), bytes, /*on_host=*/true);
  }
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(on_host_, other.on_host_);
    return *this;
  }
  ~DeviceMemory() {
    if (device_ == nullptr) return;
    if (on_host_) {
      device_->DeallocateHost(data_, bytes_);
    } else {
      device_->Deallocate(data_, bytes_);
    }
  }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  static absl::StatusOr<DeviceMemory> Make(Device& device, absl::StatusOr<void*> memory, size_t bytes, bool on_host) {
    if (!memory.ok()) return memory.status();
    DeviceMemory made;
    made.device_ = &device;
    made.data_ = *memory;
    made.bytes_ = bytes;
    made.on_host_ = on_host;
    return made;
  }

  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  bool on_host_ = false;
};

}  // namespace belfry
