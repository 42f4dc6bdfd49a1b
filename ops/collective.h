// Collective ops: exchange of values between towers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::ops {

// Identifies a collective and this tower's rank in it.
struct CollectiveOptions {
  std::string group = {};  // unique among the graph's collectives, the same in all towers
  int rank = 0;            // of this tower
  int size = 1;            // number of towers
};

// The weighted mean of each of `values` over the towers: sum(weight_r * x_r) / sum(weight_r), summed in an
// order that depends on the number of towers only (MakeLocalCollective in framework/collective/collective.h). `weight`
// is a float32 scalar; a tower of weight 0 takes no part. Every tower adds one node with its own values, of the same
// shapes, and either all of these nodes run or none does. The values of one call form a bucket, which is averaged once
// the last of them is ready.
//
// The gradient assumes that the training objective is the mean of the towers' losses with the same weights, as in
// ReplicateTowers: d/dx_r, in the units of tower r's own loss, is the mean of dy over the towers.
std::vector<Output> AllReduceMean(OpScope scope, const CollectiveOptions& options, Output weight,
                                  absl::Span<const Output> values);
// The sum of each of `values` over the towers. Its gradient is the sum of dy over the towers, which is right for the
// sum of their losses, and for their mean if all weights are equal.
std::vector<Output> AllReduceSum(OpScope scope, const CollectiveOptions& options, absl::Span<const Output> values);
// Copies tower 0's `values` to every tower. Not differentiable.
std::vector<Output> Broadcast(OpScope scope, const CollectiveOptions& options, absl::Span<const Output> values);

// A tower's part of a value: these of its elements, in row-major order.
struct FlatPart {
  int64_t begin = 0, size = 0;
};
// The parts of tower options.rank: of a bucket of values of these shapes, side by side in memory, every tower has an
// equal slice, so of each value it has a part, which may be empty. `begin` is a multiple of kAlignment bytes. REQUIRES:
// known shapes, and a rank in [0, options.size).
std::vector<FlatPart> PartsOfTower(const CollectiveOptions& options, DType dtype, absl::Span<const Shape> shapes);
// The tower's parts of the weighted means of `values`, as AllReduceMean has them, bit by bit: tensors of rank 1. Among
// CPUs and by NCCL it moves half of what AllReduceMean does. The shapes must be known. Not differentiable.
std::vector<Output> ReduceScatterMean(OpScope scope, const CollectiveOptions& options, Output weight,
                                      absl::Span<const Output> values);
// The converse: values of the given shapes, from the parts of all towers. `parts` are this tower's, one for each value;
// another number or size of them is an error. Not differentiable.
std::vector<Output> AllGather(OpScope scope, const CollectiveOptions& options, absl::Span<const Output> parts,
                              absl::Span<const Shape> shapes);

}  // namespace belfry::ops
