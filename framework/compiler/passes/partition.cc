#include <tuple>
#include <vector>

#include "framework/base/check.h"
#include "framework/base/memory/hash_table.h"
#include "framework/compiler/passes/passes.h"
#include "framework/compiler/passes/variable_updates.h"

namespace belfry {
absl::Status Partition(Program& program) {
  HashMap<std::tuple<Value, int, std::vector<int>>, Value> moved;
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
