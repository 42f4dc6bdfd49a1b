// The results of a plan, found by running it with hashes in the place of numbers: the reference for the checker of
// plans (framework/compiler/verify), of whose code it shares none.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/compiler/plan.h"

namespace belfry::execution {

// A hash of what the node's kernel computes from its operands: of the op, the attributes and the members.
uint64_t MeaningOf(const ProgramNode& node);

// Hashes of what each node read, by number, then of the fetches, and of the variables in the order of their nodes at
// the end of the step. Two values have the same hash if the same ops made them from the same feeds and variables.
using Seen = std::vector<uint64_t>;

// Runs the program node by node, where every output has memory of its own. `meanings`: of its nodes.
Seen RunProgram(const Plan& plan, const std::vector<uint64_t>& meanings);

// Runs the streams in an order that the seed chooses. A kernel takes time: its operands must not change meanwhile, nor
// anything else write where it does. Nothing if they do, or if the streams wait for each other for ever.
std::optional<Seen> RunStreams(const Plan& plan, const std::vector<uint64_t>& meanings, uint32_t seed);

// True if all streams reach their end, everything lies within its memory, and whatever nodes share bytes, of which one
// writes them, are in an order by streams, records and waits. Then all orders of execution have the same results. It
// compares all pairs of accesses.
bool OrdersAllAccesses(const Plan& plan);

// True if whatever runs begins after all that it depends on by values and controls, also where no bytes need that.
bool OrdersDependences(const Plan& plan);

// True if `plan` has an order between all nodes between which `than` has one. REQUIRES: the same nodes.
bool OrdersAsMuch(const Plan& plan, const Plan& than);

}  // namespace belfry::execution
