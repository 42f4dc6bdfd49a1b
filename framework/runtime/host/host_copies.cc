#include "framework/runtime/host/host_copies.h"

#include <cstring>

#include "framework/base/status.h"

namespace belfry {
namespace {

bool Belongs(const HostCopy& copy, const Lane& lane) {
  return copy.device == lane.device && copy.data != nullptr && copy.spec.bytes() > 0;
}

}  // namespace

void StageFeeds(const BoundPlan& bound, const RunState& state, absl::Span<const Tensor> feeds) {
  size_t next = 0;
  for (const HostCopy& feed : bound.feeds) {
    const Tensor* const tensor = feed.program.has_value() ? nullptr : &feeds[next++];
    const void* const from = tensor == nullptr ? *feed.program : tensor->raw();
    const size_t bytes = tensor == nullptr ? feed.spec.bytes() : tensor->bytes();
    const bool staged = bound.devices.device(feed.device).asynchronous();
    void* const to = staged ? feed.staged[state.place].data() : feed.data;
    if (to != nullptr && to != from && bytes > 0) std::memcpy(to, from, bytes);
  }
}

// The device memory ahead was last read by the run before the previous one, which is done.
absl::Status EnqueueFeeds(const BoundPlan& bound, Lane& lane, const RunState& state) {
  Device& device = bound.devices.device(lane.device);
  Device& host = bound.devices.device(0);
  Stream& compute = *lane.streams[0];
  if (lane.copy_in != nullptr) {
    for (const HostCopy& feed : bound.feeds) {
      void* const ahead = feed.ahead[state.place].data();
      if (!Belongs(feed, lane) || ahead == nullptr) continue;
      RETURN_IF_ERROR(lane.copy_in->Copy(ahead, device, feed.staged[state.place].data(), host, feed.spec.bytes()));
    }
    lane.copy_in->Record(*lane.fed, state.step_index);
    RETURN_IF_ERROR(compute.Wait(*lane.fed, state.step_index, state.deadline));
  }
  for (const HostCopy& feed : bound.feeds) {
    if (!Belongs(feed, lane)) continue;
    const void* const ahead = feed.ahead[state.place].data();
    const void* const from = ahead != nullptr ? ahead : feed.staged[state.place].data();
    RETURN_IF_ERROR(compute.Copy(feed.data, device, from, ahead != nullptr ? device : host, feed.spec.bytes()));
  }
  return absl::OkStatus();
}

absl::Status EnqueueFetches(const BoundPlan& bound, const Lane& lane, const RunState& state) {
  for (const HostCopy& fetch : bound.fetches) {
    if (!Belongs(fetch, lane)) continue;
    RETURN_IF_ERROR(lane.streams[0]->Copy(fetch.staged[state.place].data(), bound.devices.device(0), fetch.data,
                                          bound.devices.device(fetch.device), fetch.spec.bytes()));
  }
  return absl::OkStatus();
}

void ReadFetches(const BoundPlan& bound, int place, std::vector<Tensor>& fetches) {
  for (size_t i = 0; i < bound.fetches.size(); ++i) {
    const HostCopy& fetch = bound.fetches[i];
    const bool staged = bound.devices.device(fetch.device).asynchronous();
    const void* const from = staged ? fetch.staged[place].data() : fetch.data;
    const size_t bytes = fetches[i].bytes();
    if (bytes > 0 && fetches[i].raw() != from) std::memcpy(fetches[i].raw(), from, bytes);
    if (bytes > 0 && fetch.program.has_value() && *fetch.program != from) std::memcpy(*fetch.program, from, bytes);
  }
}

}  // namespace belfry
