// Copies of feeds and fetches between the host and devices.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/runtime/binding.h"

namespace belfry {

// Each feed and fetch of an asynchronous device has two staging places, which successful runs use in turn: the copies
// of one run may be in flight while the host fills in the feeds of the next.

// Copies the caller's tensors, which are the feeds that have no memory of the program, to the staging places of the
// run, or to CPU devices.
void StageFeeds(const BoundPlan& bound, const RunState& state, absl::Span<const Tensor> feeds);
// Enqueues the copies from the staging places to the lane's device. Large feeds are copied by a stream of their own,
// beside the work of the previous run.
absl::Status EnqueueFeeds(const BoundPlan& bound, Lane& lane, const RunState& state);
// Enqueues the copies from the lane's device to the staging places.
absl::Status EnqueueFetches(const BoundPlan& bound, const Lane& lane, const RunState& state);
// Copies the fetches of the run that used `place` to the caller's tensors. REQUIRES: it is done.
void ReadFetches(const BoundPlan& bound, int place, std::vector<Tensor>& fetches);

}  // namespace belfry
