// Threads that run the lanes of steps that use several devices.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device/device_set.h"

namespace belfry {

// Work that a device's thread repeats. Made once; starting it does not allocate.
struct StreamTask {
  std::function<void()> body;
};

// One persistent thread per (device, stream kind) that a plan has asked for, each with its device's share of the cores
// for parallel loops; collectives have none. Threads sleep between steps. Call Get from one thread at a time; each
// worker runs one task at a time.
class DeviceThreads {
 public:
  explicit DeviceThreads(const DeviceSet& devices) : devices_(devices) {}
  ~DeviceThreads();

  class Worker {
   public:
    // Starts it with the threads of its parallel loops. ResourceExhausted if the system refuses them.
    static absl::StatusOr<std::unique_ptr<Worker>> Start(Device& device, StreamKind kind);
    ~Worker();
    // Makes the thread run `task.body`. REQUIRES: the last task is done.
    void Start(const StreamTask& task);
    // Blocks until the task is done.
    void Wait();

   private:
    explicit Worker(Device& device);
    void Loop(const Device& device, int parallel_threads);

    std::unique_ptr<Event> start_, done_;
    const StreamTask* task_ = nullptr;  // null: exit. Published by start_
    uint32_t started_ = 0;
    absl::Status ready_;  // of the thread's start. Published by the first task's done_
    std::thread thread_;
  };

  // ResourceExhausted if the system has no threads left.
  absl::StatusOr<Worker*> Get(int device, StreamKind kind);

 private:
  const DeviceSet& devices_;
  std::map<std::pair<int, StreamKind>, std::unique_ptr<Worker>> workers_;
};

}  // namespace belfry
