// Rows of a table that are held out of the training.
#pragma once

#include <cstdint>
#include <vector>

namespace belfry::trainers {

struct RowSplit {
  std::vector<int64_t> training, held_out;  // ascending
};
// Draws the rows to hold out by the seed: the fraction of them, and at least one unless that is 0. The same on every
// machine.
RowSplit SplitRows(int64_t rows, double fraction, uint64_t seed);

}  // namespace belfry::trainers
