#include "framework/compiler/passes/variable_updates.h"

#include "framework/base/memory/hash_table.h"

namespace belfry {

UpdatesBefore::UpdatesBefore(const Program& program) : users_(program.nodes.size()) {
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const ProgramNode& node = program.nodes[i];
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      users_[node.inputs[k].node].push_back(static_cast<int>(i));
      if (InputArg(node, static_cast<int>(k)).ref) {
        writers_[Root(program, node.inputs[k]).node].push_back(static_cast<int>(i));
      }
    }
    for (int control : node.control_inputs) users_[control].push_back(static_cast<int>(i));
  }
}

std::vector<int> UpdatesBefore::Of(int variable, int node) {
  std::vector<int> before;
  const auto writers = writers_.find(variable);
  if (writers == writers_.end()) return before;
  for (int writer : writers->second) {
    if (writer != node && After(writer).contains(node)) before.push_back(writer);
  }
  return before;
}

const HashSet<int>& UpdatesBefore::After(int writer) {
  const auto [entry, added] = after_.try_emplace(writer);
  HashSet<int>& reached = entry->second;
  std::vector<int> stack;
  if (added) stack.push_back(writer);
  while (!stack.empty()) {
    const int node = stack.back();
    stack.pop_back();
    for (int user : users_[node]) {
      if (reached.insert(user).second) stack.push_back(user);
    }
  }
  return reached;
}

}  // namespace belfry
