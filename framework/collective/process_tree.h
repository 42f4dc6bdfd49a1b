// A binomial tree of processes.
#pragma once

#include <algorithm>
#include <vector>

namespace belfry {

// The fewest processes that use a tree instead of messages from each to each. A message costs a process microseconds,
// an edge of the tree the latency and the end of a sleep. Where messages take 20 us and sleeps end 50 us late, as in
// tests/simulation, both ways took about as long for 128 processes; for 512 the tree saved a millisecond of each step.
inline constexpr int kFewestInTree = 128;

// A process in a tree whose root is process 0. Process p has the children p + 2^k, for each 2^k below the lowest bit of
// p; so the processes of a subtree are consecutive, and a process is at most log2(size) edges from the root.
class ProcessTree {
 public:
  ProcessTree(int process, int size) : process_(process), size_(size) {
    for (int step = 1; process + step < End(process); step *= 2) children_.insert(children_.begin(), process + step);
  }
  bool is_root() const { return process_ == 0; }
  // REQUIRES: !is_root().
  int parent() const { return process_ & (process_ - 1); }
  // The child with the largest subtree comes first, since a result has the longest way down there.
  const std::vector<int>& children() const { return children_; }
  // The subtree of a process is [process, End(process)).
  int End(int process) const { return process == 0 ? size_ : std::min(size_, process + (process & -process)); }

 private:
  int process_, size_;
  std::vector<int> children_;
};

}  // namespace belfry
