// Internal to the passes.
#pragma once

#include <map>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "framework/compiler/program.h"

namespace belfry {

// Which updates of a variable come before a node by dependency: a copy that reads the variable for that node must come
// after them as well. Of a program as it was when this was made.
class UpdatesBefore {
 public:
  explicit UpdatesBefore(const Program& program);

  // By node index, ascending.
  std::vector<int> Of(int variable, int node);

 private:
  const absl::flat_hash_set<int>& After(int writer);

  std::vector<std::vector<int>> users_;            // by node
  std::map<int, std::vector<int>> writers_;        // by variable
  std::map<int, absl::flat_hash_set<int>> after_;  // by writer
};

}  // namespace belfry
