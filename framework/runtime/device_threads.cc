#include "framework/runtime/device_threads.h"

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/cores.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"

namespace belfry {

DeviceThreads::~DeviceThreads() = default;

DeviceThreads::Worker::Worker(Device& device) : start_(device.NewEvent()), done_(device.NewEvent()) {}

absl::StatusOr<std::unique_ptr<DeviceThreads::Worker>> DeviceThreads::Worker::Start(Device& device, StreamKind kind) {
  std::unique_ptr<Worker> worker(new Worker(device));
  const int parallel_threads = kind == StreamKind::kCollective ? 1 : device.threads();
  ASSIGN_OR_RETURN(worker->thread_, StartThread(absl::StrCat("for ", device.name().ToString()),
                                                [own = worker.get(), &device, parallel_threads] {
                                                  own->Loop(device, parallel_threads);
                                                }));
  const StreamTask nothing{[] {}};
  worker->Start(nothing);
  worker->Wait();
  RETURN_IF_ERROR(worker->ready_);
  return worker;
}

DeviceThreads::Worker::~Worker() {
  if (!thread_.joinable()) return;
  task_ = nullptr;
  start_->Record(++started_);
  thread_.join();
}

void DeviceThreads::Worker::Start(const StreamTask& task) {
  task_ = &task;
  start_->Record(++started_);
}

void DeviceThreads::Worker::Wait() { BELFRY_CHECK(done_->Wait(started_, absl::InfiniteFuture()).ok()); }

void DeviceThreads::Worker::Loop(const Device& device, int parallel_threads) {
  const ScopedParallelThreads share(parallel_threads);
  ready_ = StartParallelThreads();
  if (ready_.ok()) BindThisThread(device.cores());
  for (uint32_t task = 1;; ++task) {
    BELFRY_CHECK(start_->Wait(task, absl::InfiniteFuture()).ok());
    if (task_ == nullptr) return;
    task_->body();
    done_->Record(task);
  }
}

absl::StatusOr<DeviceThreads::Worker*> DeviceThreads::Get(int device, StreamKind kind) {
  std::unique_ptr<Worker>& worker = workers_[{device, kind}];
  if (worker == nullptr) {
    ASSIGN_OR_RETURN(worker, Worker::Start(devices_.device(device), kind));
  }
  return worker.get();
}

}  // namespace belfry
