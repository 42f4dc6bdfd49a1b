// The orders in which threads lock mutexes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace belfry::simulation {

// A graph with an edge from each mutex to those that were locked while it was held. A cycle in it is a deadlock that
// other timing can bring about, even if that of the run did not. (Linux's lockdep looks for it in the same way.)
// Mutexes have numbers, from 1.
class LockOrder {
 public:
  // Adds the edges to `taken` from all of `held`. Called by the thread that locks it.
  void Add(const std::vector<uint64_t>& held, uint64_t taken);
  // The cycles, each with the functions in which its edges were made. One for each place that closed any.
  std::vector<std::string> Cycles() const;

 private:
  using Calls = std::array<void*, 12>;  // the innermost ones of a thread
  struct Edge {
    uint64_t from, to;
    Calls calls;
  };
  // Looks for a way from `from` to `end`, and appends its edges to `way`.
  bool Find(uint64_t from, uint64_t end, std::vector<Edge>& way) const;

  std::unordered_map<uint64_t, std::vector<Edge>> edges_;  // by `from`
  std::vector<std::vector<Edge>> cycles_;
  uint64_t last_from_ = 0, last_to_ = 0;  // an edge that is known
};

}  // namespace belfry::simulation
