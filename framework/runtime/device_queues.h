// What all steps of a session share of the asynchronous devices: one stream of each kind, in whose order the steps run.
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

// The streams of a session. A run of any executable ends, on each asynchronous device that it uses, with a record of
// that device's end; a run begins after all ends before it. So whatever a run reads or overwrites, of its own memory or
// of variables, is settled, and the host need not wait. Get is thread-safe; for the rest, one run at a time.
class DeviceQueues {
 public:
  explicit DeviceQueues(const DeviceSet& devices);
  // Waits for all work.
  ~DeviceQueues();

  // The session's stream of an asynchronous device.
  absl::StatusOr<Stream*> Get(int device, StreamKind kind);

  // How many runs a device has been given, and the event that counts their ends.
  uint32_t runs(int device) const { return queues_[device].runs; }
  Event& end(int device) { return *queues_[device].end; }
  uint32_t AddRun(int device) { return ++queues_[device].runs; }  // the new count
  // The asynchronous devices.
  const std::vector<int>& asynchronous() const { return asynchronous_; }

  // Copies a variable out of and into its device, after all work that was queued; done on return. For any device.
  absl::Status CopyOut(int device, void* to_host, const void* from, size_t bytes);
  absl::Status CopyIn(int device, void* to, const void* from_host, size_t bytes);

  // Waits until an asynchronous device has nothing to do, and says what went wrong on it.
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
