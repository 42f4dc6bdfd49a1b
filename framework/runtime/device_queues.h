// The streams of asynchronous devices that all steps of a session share: one of each kind per device.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "framework/device/device_set.h"

namespace belfry {

// The session's streams, and for each asynchronous device an event that marks the ends of runs on it. Every run ends by
// recording that event on each device that it uses, and begins by waiting for the ends of all runs before it. So all
// memory that it reads or overwrites, its own or variables', is up to date on the device, and the host need not wait.
// Get is thread-safe; for the rest, one run at a time.
class DeviceQueues {
 public:
  explicit DeviceQueues(const DeviceSet& devices);
  // Waits for all work of all devices.
  ~DeviceQueues();

  // The session's stream of an asynchronous device.
  absl::StatusOr<Stream*> Get(int device, StreamKind kind);

  // Number of runs given to a device, and the event that counts their ends.
  uint32_t runs(int device) const { return queues_[device].runs; }
  Event& end(int device) { return *queues_[device].end; }
  uint32_t AddRun(int device) { return ++queues_[device].runs; }  // returns the new count
  // Makes later work on `stream`, of `device`, wait for the runs given to the other asynchronous devices.
  absl::Status WaitForOtherDevices(int device, Stream& stream, absl::Time deadline);
  // Records the end of the run that AddRun will count next: on a stream, or at once.
  void RecordEnd(int device, Stream& stream) { stream.Record(end(device), runs(device) + 1); }
  void RecordEnd(int device) { end(device).Record(runs(device) + 1); }
  // The asynchronous devices.
  const std::vector<int>& asynchronous() const { return asynchronous_; }

  // Copy a variable's bytes from and to its device, of any kind, after all queued work; done on return.
  absl::Status CopyOut(int device, void* to_host, const void* from, size_t bytes);
  absl::Status CopyIn(int device, void* to, const void* from_host, size_t bytes);

  // Waits until an asynchronous device is idle, and returns the first error of its work.
  absl::Status Synchronize(int device);

 private:
  struct Queue {
    std::unique_ptr<Event> end;
    uint32_t runs = 0;
  };

  const DeviceSet& devices_;
  std::vector<Stream*> StreamsOf(int device);

  Mutex mutex_;
  std::map<std::pair<int, StreamKind>, std::unique_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
  std::vector<Queue> queues_;  // by device
  std::vector<int> asynchronous_;
};

}  // namespace belfry
