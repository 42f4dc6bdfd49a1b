#include <map>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "framework/base/check.h"
#include "framework/runtime/passes.h"

namespace belfry {
namespace {

// Which updates of a variable come before a node by dependency: a transfer that reads the variable for that node must
// come after them as well.
class UpdatesBefore {
 public:
  explicit UpdatesBefore(const Program& program) : users_(program.nodes.size()) {
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

  std::vector<int> Of(int variable, int node) {
    std::vector<int> before;
    const auto writers = writers_.find(variable);
    if (writers == writers_.end()) return before;
    for (int writer : writers->second) {
      if (writer != node && After(writer).contains(node)) before.push_back(writer);
    }
    return before;
  }

 private:
  const absl::flat_hash_set<int>& After(int writer) {
    const auto [entry, added] = after_.try_emplace(writer);
    absl::flat_hash_set<int>& reached = entry->second;
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

  std::vector<std::vector<int>> users_;            // by node
  std::map<int, std::vector<int>> writers_;        // by variable
  std::map<int, absl::flat_hash_set<int>> after_;  // by writer
};

}  // namespace

absl::Status Partition(Program& program) {
  absl::flat_hash_map<std::tuple<Value, int, std::vector<int>>, Value> moved;
  UpdatesBefore updates(program);
  const auto size = static_cast<int>(program.nodes.size());
  for (int i = 0; i < size; ++i) {
    const int device = program.nodes[i].device;
    for (size_t k = 0; k < program.nodes[i].inputs.size(); ++k) {
      const Value input = program.nodes[i].inputs[k];
      if (program.nodes[input.node].device == device) continue;
      const ArgDef& arg = InputArg(program.nodes[i], static_cast<int>(k));
      BELFRY_CHECK(!arg.ref);
      if (arg.shape_only) continue;
      const std::vector<int> after = updates.Of(Root(program, input).node, i);
      const auto [found, inserted] = moved.try_emplace({input, device, after});
      if (inserted) {
        if (program.nodes[input.node].op->kind == OpKind::kConst) {
          ProgramNode copy = program.nodes[input.node];
          copy.device = device;
          program.nodes.push_back(std::move(copy));
          found->second = {static_cast<int>(program.nodes.size()) - 1, 0};
        } else {
          // Just before its first user, so that the destination holds it no longer than it must.
          found->second = AddCopy(program, TransferOp(), input, device, program.nodes[i].rank);
          program.nodes[found->second.node].control_inputs = after;
        }
      }
      program.nodes[i].inputs[k] = found->second;
    }
  }
  return Normalize(program);
}

}  // namespace belfry
