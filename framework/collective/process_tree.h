// A binomial tree of processes.
#pragma once

#include <algorithm>
#include <vector>

namespace belfry {

// The fewest processes that use a tree instead of messages from each to each. Both take about as long where they are
// few: on a tree each process has to wake up before the next one can go on.
inline constexpr int kFewestInTree = 32;

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
  // That with the largest subtree first: what goes down has the longest way there.
  const std::vector<int>& children() const { return children_; }
  // The subtree of a process is [process, End(process)).
  int End(int process) const { return process == 0 ? size_ : std::min(size_, process + (process & -process)); }

 private:
  int process_, size_;
  std::vector<int> children_;
};

}  // namespace belfry
