#include "framework/runtime/device_threads.h"

#include "framework/base/check.h"
#include "framework/base/cores.h"
#include "framework/base/parallel.h"
#include "framework/base/time_slice.h"

namespace belfry {

DeviceThreads::~DeviceThreads() = default;

DeviceThreads::Worker::Worker(Device& device, StreamKind kind)
    : start_(device.NewEvent()), done_(device.NewEvent()), thread_([this, &device, kind] { Loop(device, kind); }) {}

DeviceThreads::Worker::~Worker() {
  task_ = nullptr;
  start_->Record(++started_);
  thread_.join();
}

void DeviceThreads::Worker::Start(const StreamTask& task) {
  task_ = &task;
  start_->Record(++started_);
}

void DeviceThreads::Worker::Wait() { BELFRY_CHECK(done_->Wait(started_, absl::InfiniteFuture()).ok()); }

void DeviceThreads::Worker::Loop(const Device& device, StreamKind kind) {
  const ScopedParallelThreads share(device.threads());
  BindThisThread(device.cores());
  // Where it shares a core with the thread that computes, an average would otherwise begin milliseconds late, and the
  // link would rest as long each time that data arrives.
  if (kind == StreamKind::kCollective) UseShortTimeSlices();
  for (uint32_t task = 1;; ++task) {
    BELFRY_CHECK(start_->Wait(task, absl::InfiniteFuture()).ok());
    if (task_ == nullptr) return;
    task_->body();
    done_->Record(task);
  }
}

DeviceThreads::Worker& DeviceThreads::Get(int device, StreamKind kind) {
  std::unique_ptr<Worker>& worker = workers_[{device, kind}];
  if (worker == nullptr) worker = std::make_unique<Worker>(devices_.device(device), kind);
  return *worker;
}

}  // namespace belfry
