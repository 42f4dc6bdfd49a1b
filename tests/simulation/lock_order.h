// The orders in which threads lock mutexes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace belfry::simulation {

// A graph with an edge from each mutex to those that were locked while it was held. Where there is no cycle, no timing
// makes these locks deadlock. A cycle is a deadlock that other timing can bring about, even if that of the run did not,
// unless something else prevents it: all edges are of one thread, say, or another mutex is held at each of them. Cycles
// are reported all the same, as by Linux's lockdep. Mutexes have numbers, from 1.
class LockOrder {
 public:
  // Adds the edges to `taken` from all of `held`. Called by the thread that locks it, unless that only counts another
  // lock of a recursive mutex; a mutex that its thread locks again is a cycle of one edge.
  void Add(const std::vector<uint64_t>& held, uint64_t taken);
  // The cycles, each with the functions in which its edges were made. One for each place that closed any.
  std::vector<std::string> Cycles() const;

 private:
  using Calls = std::array<void*, 12>;  // the innermost ones of a thread
  struct Edge {
    uint64_t from, to;
    Calls calls;
  };
  // Looks for a way from `from` to `end` that meets none of `visited`, and appends its edges to `way`. Adds the mutexes
  // that it meets to `visited`.
  bool Find(uint64_t from, uint64_t end, std::unordered_set<uint64_t>& visited, std::vector<Edge>& way) const;

  std::unordered_map<uint64_t, std::vector<Edge>> edges_;  // each under its `from`
  std::vector<std::vector<Edge>> cycles_;
  uint64_t last_from_ = 0, last_to_ = 0;  // an edge that is known
};

}  // namespace belfry::simulation
