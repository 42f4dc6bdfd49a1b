// The order in which an epoch visits a dataset, and the split of a batch over towers.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace belfry::data {

// The `batch`-th batch (from 0) of epoch `epoch` (from 0).
struct Position {
  int64_t epoch = 0;
  int64_t batch = 0;
  bool operator==(const Position& other) const { return epoch == other.epoch && batch == other.batch; }
  bool operator!=(const Position& other) const { return !(*this == other); }
};

// Writes a permutation of 0 .. order.size() - 1 (Fisher-Yates over Philox) that depends only on (seed, epoch, size).
void ShuffleEpoch(uint64_t seed, int64_t epoch, absl::Span<int64_t> order);

// Number of batches in an epoch. Batch b takes positions [b * batch_size, (b + 1) * batch_size) of its order. If
// batch_size does not divide `examples`, the last batch is smaller, or is left out if drop_remainder.
int64_t BatchesPerEpoch(int64_t examples, int64_t batch_size, bool drop_remainder);
// Number of examples in the last batch of an epoch. REQUIRES: BatchesPerEpoch(...) > 0.
int64_t LastBatchSize(int64_t examples, int64_t batch_size, bool drop_remainder);

// The examples [begin, begin + count) of a batch.
struct TowerRange {
  int64_t begin = 0;
  int64_t count = 0;
};

// The share of tower `tower` in a batch: consecutive ranges in tower order, the first (examples mod towers) of them one
// longer than the rest. REQUIRES: 0 <= tower < towers.
TowerRange RangeOfTower(int64_t examples, int towers, int tower);
// InvalidArgument unless towers [first_tower, first_tower + local_towers) are a part of `towers`, of which there is one
// at least.
absl::Status CheckTowers(int towers, int first_tower, int local_towers);

}  // namespace belfry::data
