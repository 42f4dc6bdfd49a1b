// The check that averages and updates are of the values that the graph says.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/program.h"
#include "framework/compiler/verify/collectives_impl.h"

namespace belfry::verify {

// Follows every value of the program, and every output of the graph, back to its origins: the feeds of each tower, the
// variables of each replica, and the result of each rank of each collective, beyond which it does not look. Proves by
// them that
//
// - an operand of a collective is the one of its rank: it has no origin that the graph's operand lacks, and all feeds
//   and collectives that this has. One without origins is told apart by the tower of its node;
// - an op that passes have kept depends on all feeds and collectives that it depends on in the graph, so that no sum
//   lacks a tower's share, and an update of a variable on no others, so that it passes each average as often as there;
// - all copies of a trained variable that the step uses are updated by the same averages, which have a rank for each
//   copy.
//
// Returns the number of copies of trained variables whose updates depend on averages; -1, without a check, if a node of
// several outputs is fed: programs do not say which of them. Shapes, constants and the order
// of nodes are not origins. Takes time in proportion to operands times feeds, replicas and ranks of collectives.
absl::StatusOr<int64_t> CheckOrigins(const Program& program, const std::vector<GraphRanks>& ranks);

}  // namespace belfry::verify
