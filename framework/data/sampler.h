// In which order an epoch goes through a dataset, and how a batch is dealt to towers.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace belfry::data {

// A batch: the `batch`-th (from 0) of epoch `epoch` (from 0).
struct Position {
  int64_t epoch = 0;
  int64_t batch = 0;
  bool operator==(const Position& other) const { return epoch == other.epoch && batch == other.batch; }
  bool operator!=(const Position& other) const { return !(*this == other); }
};

// Writes a permutation of 0 .. order.size() - 1 (Fisher-Yates over Philox), a function of (seed, epoch, size) alone.
void ShuffleEpoch(uint64_t seed, int64_t epoch, absl::Span<int64_t> order);

// Batches of an epoch: batch b takes positions [b * batch_size, (b + 1) * batch_size) of its order. The last one is
// smaller if batch_size does not divide `examples`; it is kept, or left out if drop_remainder.
int64_t BatchesPerEpoch(int64_t examples, int64_t batch_size, bool drop_remainder);

// The part [begin, begin + count) of a batch.
struct TowerRange {
  int64_t begin = 0;
  int64_t count = 0;
};

// What tower `tower` of `towers` gets of a batch: consecutive ranges in tower order, the first (examples mod towers)
// one longer than the rest. REQUIRES: 0 <= tower < towers.
TowerRange RangeOfTower(int64_t examples, int towers, int tower);

}  // namespace belfry::data
