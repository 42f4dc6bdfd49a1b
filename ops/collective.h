// Ops in which towers meet.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::ops {

// Which collective, and which part of it this tower is.
struct CollectiveOptions {
  std::string group;  // unique among the graph's collectives; the same in all towers
  int rank = 0;       // this tower
  int size = 1;       // how many towers
};

// The mean of each of `values` over the towers, weighted by `weight` (float32, shape []): sum(weight_r * x_r) /
// sum(weight_r), in ascending tower order. A tower of weight 0 does not take part. Every tower adds one node with its
// own values, of the same shapes, and all of them run or none. The values of a call are one bucket: averaged together
// once the last of them exists.
//
// Its gradient takes what is trained to be the mean of the towers' losses with these same weights, as ReplicateTowers
// has it: d/dx_r, in the units of tower r's own loss, is the mean of dy over the towers.
std::vector<Output> AllReduceMean(OpScope scope, const CollectiveOptions& options, Output weight,
                                  absl::Span<const Output> values);
// The sum of each of `values` over the towers. Its gradient is the sum of dy over the towers: right for the sum of
// their losses, and for their mean if they count alike.
std::vector<Output> AllReduceSum(OpScope scope, const CollectiveOptions& options, absl::Span<const Output> values);
// Tower 0's `values`, in every tower. It has no gradient.
std::vector<Output> Broadcast(OpScope scope, const CollectiveOptions& options, absl::Span<const Output> values);

}  // namespace belfry::ops
