// Devices: their memory, streams of work, and events that order streams. Knows nothing of graphs.
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

// A point in a stream that others wait for. It counts the runs of a plan: one stream calls Record(run), any number of
// others Wait(run). Runs count up and may wrap around at 2^32. Made by a Device and used with streams of any device.
// Only the last kEventRuns runs can be waited for. May be destroyed before the work enqueued on asynchronous streams
// has recorded it or waited for it. Thread-safe.
inline constexpr uint32_t kEventRuns = 4;
class Event {
 public:
  virtual ~Event() = default;
  // Blocks the calling thread until the event has been recorded for `run` or a later run and the work before that
  // record is done. Errors: Cancelled after Cancel(), DeadlineExceeded once SteadyNow reaches `deadline`.
  virtual absl::Status Wait(uint32_t run, absl::Time deadline) = 0;
  // Marks `run` as reached, from the host.
  virtual void Record(uint32_t run) = 0;
  // Wakes all waiters, now and until Reset, with Cancelled.
  virtual void Cancel() = 0;
  // Clears the cancellation and marks `run` as reached. REQUIRES: no thread is waiting.
  virtual void Reset(uint32_t run) = 0;
};

enum class StreamKind { kCompute, kCopyIn, kCopyOut, kCollective };

class Stream;

// Work captured from a set of streams, for example a whole step as one CUDA graph.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  // Enqueues all of it once more; later work on `stream` begins when all of it is done. REQUIRES: the previous replay
  // is done, or was enqueued on the same stream.
  virtual absl::Status Enqueue(Stream& stream) = 0;
};

// An ordered queue of work on one device. A CPU device runs the work on the calling thread, so it is done when the call
// returns. A GPU enqueues it, and the host runs ahead. One thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;  // waits for its work
  virtual StreamKind kind() const = 0;
  // Makes later work on this stream wait until `event` is recorded for `run`. On an asynchronous device the calling
  // thread blocks until Record has been called, not until the work before it is done.
  virtual absl::Status Wait(Event& event, uint32_t run, absl::Time deadline) = 0;
  // Records `run` once all earlier work on this stream is done.
  virtual void Record(Event& event, uint32_t run) = 0;
  // Copies `bytes` between this stream's device and host memory or another device's.
  virtual absl::Status Copy(void* to, const Device& to_device, const void* from, const Device& from_device,
                            size_t bytes) = 0;
  // Blocks the calling thread until all work on this stream is done, and returns Error().
  virtual absl::Status Synchronize() = 0;
  // Returns the first error of finished work and clears it if the device can go on. Does not wait.
  virtual absl::Status Error() = 0;
  // Starts capture (cudaStreamBeginCapture): work issued by this thread on this stream, and on streams that wait on its
  // events, is captured instead of run until EndCapture. Before EndCapture this stream must wait for all the others.
  // Until they are recorded again, events recorded during the capture can be waited for by these streams only. After an
  // error nothing is captured. Unimplemented where the device does not support it.
  virtual absl::Status BeginCapture() {
    return absl::UnimplementedError("this device does not support capturing work");
  }
  virtual absl::StatusOr<std::unique_ptr<CapturedWork>> EndCapture() {
    return absl::UnimplementedError("this device does not support capturing work");
  }
};

// Timestamps, by SteadyNow, of points in the work of one device's streams. One thread at a time.
class StreamClock {
 public:
  virtual ~StreamClock() = default;
  // Takes stamp `i` when all earlier work on `stream` is done. On a GPU the call does not wait for that.
  virtual absl::Status Stamp(Stream& stream, int i) = 0;
  // The time of stamp `i` by the host's clock; on a GPU to within its own clock's resolution of about 0.5 us. REQUIRES:
  // the stream has passed stamp `i`.
  virtual absl::StatusOr<absl::Time> Read(int i) = 0;
};

// A snapshot of a device's memory use.
struct DeviceCounters {
  size_t bytes_in_use = 0;
  size_t peak_bytes_in_use = 0;
  int64_t allocations = 0;  // made so far
  size_t memory_limit = 0;  // bytes; for a CPU device all of the machine's memory
};

// Numerical freedom of a device's kernels.
struct MathMode {
  bool tf32 = true;            // float32 products with 10 bits of mantissa where the hardware supports it
  bool deterministic = false;  // same bits in every run: no kernels whose order of summation depends on timing
  // Winograd's algorithm for CPU convolutions where it is faster; a very large number then spoils outputs beside it.
  bool winograd = true;
};

// A kernel that a device has compiled from source. Thread-safe.
class CompiledKernel {
 public:
  virtual ~CompiledKernel() = default;
  // Enqueues `blocks` blocks of kCompiledThreads threads each, with one argument, a struct of `bytes` bytes that is
  // copied before the call returns.
  virtual absl::Status Launch(Stream& stream, int64_t blocks, const void* argument, size_t bytes) const = 0;
};
inline constexpr int kCompiledThreads = 256;
inline constexpr size_t kMaxCompiledArgument = 4096;  // bytes

// One device of this process: a logical CPU device with a share of the cores, or a GPU. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  // All five fields are set: /job:localhost/replica:0/task:0/device:CPU:0.
  virtual const DeviceName& name() const = 0;
  absl::string_view type() const { return *name().type; }
  // Human-readable: "2 threads of Intel(R) Xeon(R)"; "device: 0, name: Tesla K40c, pci bus id: 0000:05:00.0".
  virtual std::string description() const = 0;
  // Number of threads that a kernel on this device may use; 1 for a GPU.
  virtual int threads() const = 0;
  // Cores that its threads are pinned to (BindThisThread); empty if they are not pinned.
  virtual absl::Span<const int> cores() const { return {}; }
  // Devices of the same type and physical id share memory and hardware: virtual GPUs on one card, or all CPU devices.
  virtual int physical_id() const { return 0; }
  // True if streams only enqueue, so one host thread can serve all of them; false if each stream needs its own thread.
  virtual bool asynchronous() const = 0;
  virtual DeviceCounters counters() const = 0;
  virtual MathMode math() const { return {}; }
  // True unless it was opened together with other GPUs, on this card or another, or in one of several processes whose
  // GPUs work together (DeviceOptions::several_processes). With other GPUs present, a kernel must not wait for blocks
  // of its own that have not started: work of another device could keep them from being scheduled.
  virtual bool only_gpu() const { return true; }
  // Hardware model, equal for devices of equal speed: "NVIDIA H100 80GB HBM3".
  virtual std::string model() const { return std::string(type()); }

  // Allocates `bytes` of this device's memory, aligned to 64 bytes; null for 0. Errors: ResourceExhausted, with the
  // device and the sizes.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  // REQUIRES: no work in flight uses the memory, since the next Allocate may return it. The same holds for
  // DeallocateHost.
  virtual void Deallocate(void* memory, size_t bytes) = 0;
  // Allocates host memory that this device can copy from and to directly (page-locked for a GPU), aligned to 64 bytes.
  virtual absl::StatusOr<void*> AllocateHost(size_t bytes) = 0;
  virtual void DeallocateHost(void* memory, size_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream(StreamKind kind) = 0;
  virtual std::unique_ptr<Event> NewEvent() = 0;
  // Makes a clock of `stamps` stamps. The default synchronises the stream and reads the host's clock.
  virtual absl::StatusOr<std::unique_ptr<StreamClock>> NewClock(int stamps);

  // True if CompileKernel works here.
  virtual bool CompilesKernels() { return false; }
  // Compiles `source`, C++ of the dialect of CUDA that includes nothing, and returns its one kernel, extern "C"
  // belfry_kernel(Table). The source may use the integer types of <cstdint>; of std the functions of <cmath>,
  // numeric_limits and what functors ask of <type_traits>; and belfry::Half and BFloat16, with float Widen(Half) and
  // Half NarrowTo(Half, float). It is compiled once, and kept on disk for other processes. Errors: Unimplemented, or
  // Internal with the compiler's words.
  virtual absl::StatusOr<std::shared_ptr<const CompiledKernel>> CompileKernel(const std::string&) {
    return absl::UnimplementedError("this device does not compile kernels");
  }

  // The device's single object of type T, shared by its kernels, such as a library handle. The first call makes it with
  // `make`, an absl::StatusOr<std::unique_ptr<T>>(); the device destroys it.
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

// Owns a block of a device's memory, or of host memory for its copies.
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
