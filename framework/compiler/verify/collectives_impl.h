// The checks of collectives: their ranks, and the memory that they average in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/plan.h"

namespace belfry::verify {

// The nodes of the graph that belong to each collective, by rank. Empty for a collective that the graph does not have.
using GraphRanks = std::map<int64_t, const Node*>;
std::vector<GraphRanks> RanksOfGraph(const Program& program);

struct CollectiveFacts {
  std::vector<int> nodes;  // by collective: how many the plan has
  int64_t collectives = 0, ranks = 0;
};

// Proves that every collective of the graph is in the plan with all its ranks, each once, with the graph's reduction,
// number of ranks and number of values, and that each works on the bytes of its inputs, side by side as they are given.
// A collective of one rank may be left out.
absl::StatusOr<CollectiveFacts> CheckCollectives(const Plan& plan, const std::vector<GraphRanks>& graph);

}  // namespace belfry::verify
