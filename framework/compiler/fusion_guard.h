// The nodes of a program that may become one with the node that reads them.
#pragma once

#include <vector>

#include "framework/base/memory/hash_table.h"
#include "framework/compiler/program.h"

namespace belfry {

// A snapshot of the program's uses and orders: do not query nodes fused since. It stays right for the others as long as
// a fused node reads nothing but what it and the nodes that it took in read.
class FusionGuard {
 public:
  explicit FusionGuard(const Program& program);

  // True if `user` is the only reader of output 0 of `producer`, both run on one device, and computing `producer`
  // later, when `user` runs, changes nothing: neither has control inputs, and `user` comes neither after a write of a
  // variable that `producer` might read nor after a collective, on which other devices wait.
  bool Allows(int producer, int user) const;
  // The number of inputs and fetches that are this value.
  int Readers(Value value) const;
  // True if computing `node` sooner, once its inputs are known, changes nothing: it has no control inputs, and it comes
  // after no write of a variable and no collective.
  bool AllowsSooner(int node) const;

 private:
  const std::vector<ProgramNode>& nodes_;
  HashMap<Value, int> uses_;
  std::vector<char> awaited_;  // by node: a control input or target names it
  std::vector<char> late_;     // by node: it comes after a write of a variable or a collective, or is one
};

}  // namespace belfry
