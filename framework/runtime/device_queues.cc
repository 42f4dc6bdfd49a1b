#include "framework/runtime/device_queues.h"

#include <cstring>

#include "framework/base/status.h"

namespace belfry {

DeviceQueues::DeviceQueues(const DeviceSet& devices) : devices_(devices), queues_(devices.size()) {
  for (int i = 0; i < devices.size(); ++i) {
    if (!devices.device(i).asynchronous()) continue;
    asynchronous_.push_back(i);
    queues_[i].end = devices.device(i).NewEvent();
  }
}

DeviceQueues::~DeviceQueues() {
  for (int device : asynchronous_) Synchronize(device).IgnoreError();
}

absl::StatusOr<Stream*> DeviceQueues::Get(int device, StreamKind kind) {
  const MutexLock lock(mutex_);
  const auto known = streams_.find({device, kind});
  if (known != streams_.end()) return known->second.get();
  ASSIGN_OR_RETURN(std::unique_ptr<Stream> made, devices_.device(device).NewStream(kind));
  return (streams_[{device, kind}] = std::move(made)).get();
}

absl::Status DeviceQueues::WaitForOtherDevices(int device, Stream& stream, absl::Time deadline) {
  for (int other : asynchronous_) {
    if (other != device && runs(other) > 0) RETURN_IF_ERROR(stream.Wait(end(other), runs(other), deadline));
  }
  return absl::OkStatus();
}

absl::Status DeviceQueues::CopyOut(int device, void* to_host, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (!devices_.device(device).asynchronous()) {
    std::memcpy(to_host, from, bytes);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Stream* const stream, Get(device, StreamKind::kCompute));
  RETURN_IF_ERROR(stream->Copy(to_host, devices_.device(0), from, devices_.device(device), bytes));
  return stream->Synchronize();
}

absl::Status DeviceQueues::CopyIn(int device, void* to, const void* from_host, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (!devices_.device(device).asynchronous()) {
    std::memcpy(to, from_host, bytes);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Stream* const stream, Get(device, StreamKind::kCompute));
  RETURN_IF_ERROR(stream->Copy(to, devices_.device(device), from_host, devices_.device(0), bytes));
  return stream->Synchronize();
}

std::vector<Stream*> DeviceQueues::StreamsOf(int device) {
  const MutexLock lock(mutex_);
  std::vector<Stream*> streams;
  for (auto& [key, stream] : streams_) {
    if (key.first == device) streams.push_back(stream.get());
  }
  return streams;
}

absl::Status DeviceQueues::Synchronize(int device) {
  absl::Status status;
  for (Stream* stream : StreamsOf(device)) status.Update(stream->Synchronize());
  return status;
}

}  // namespace belfry
