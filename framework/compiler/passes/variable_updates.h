// The updates of variables that nodes depend on. Internal to the passes.
#pragma once

#include <map>
#include <vector>

#include "framework/base/memory/hash_table.h"
#include "framework/compiler/program.h"

namespace belfry {

// A snapshot of a program. Tells which updates of a variable a node depends on: a copy of the variable that is made for
// the node must come after the same updates.
class UpdatesBefore {
 public:
  explicit UpdatesBefore(const Program& program);

  // By node index, ascending.
  std::vector<int> Of(int variable, int node);

 private:
  const HashSet<int>& After(int writer);

  std::vector<std::vector<int>> users_;      // by node
  std::map<int, std::vector<int>> writers_;  // by variable
  std::map<int, HashSet<int>> after_;        // by writer
};

}  // namespace belfry
