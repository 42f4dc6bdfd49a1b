// Which nodes of a program may become one with the node that reads them. Internal to the passes.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "framework/compiler/program.h"

namespace belfry {

// Of a program as it was when this was made. Nodes may have become others since that read only what they and those that
// they took in did, and about these nobody asks any more.
class Joins {
 public:
  explicit Joins(const Program& program);

  // Nobody but `user` reads output 0 of `producer`, which runs on the same device, and nothing keeps them apart:
  // neither waits for others by control inputs, the user not for a write of a variable that the producer might read,
  // nor for what other devices wait for.
  bool Allows(int producer, int user) const;

 private:
  const std::vector<ProgramNode>& nodes_;
  absl::flat_hash_map<Value, int> uses_;
  std::vector<char> awaited_;  // by node: a control input or target names it
  std::vector<char> late_;     // by node: it comes after a write of a variable or a collective, or is one
};

}  // namespace belfry
