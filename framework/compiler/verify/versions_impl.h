// The updates of variables that a reader must see, by the dependences of the program.
#pragma once

#include <map>
#include <vector>

#include "framework/compiler/program.h"
#include "framework/compiler/verify/history_impl.h"

namespace belfry::verify {

// An operand in terms of the node that made its bytes: an output, or a variable, from byte `begin` of it on.
struct Source {
  Value value;       // of a kernel, feed, collective, constant or variable
  size_t begin = 0;  // bytes
  bool variable = false;
};
Source SourceOf(const Program& program, Value value);

// A node's write of a part of a variable.
struct VariableWrite {
  int node = 0;
  Range range;
};

class Versions {
 public:
  explicit Versions(const Program& program);

  // The last write of byte range `part` of the variable that comes before `reader` by dependence; -1: none, so that the
  // reader sees what was there before the step. REQUIRES: no write covers a part of `part` only.
  int Expected(int reader, int variable, Range part) const;
  // The same for a fetch of an output of `node`, which sees the node's own write, too.
  int ExpectedAfter(int node, int variable, Range part) const;
  // Ascending. Empty if nothing writes it.
  const std::vector<VariableWrite>& WritesOf(int variable) const;

 private:
  int Latest(int last, int variable, Range part) const;

  std::map<int, std::vector<VariableWrite>> writes_;  // by variable node
  std::map<int, int> column_;                         // of those variables in `before_`
  std::vector<int> before_, after_;  // by node and column: the last writer that it depends on, or -1; counting itself
  size_t columns_ = 0;
};

}  // namespace belfry::verify
