#include <numeric>

#include "framework/runtime/passes.h"

namespace belfry {

absl::Status ChooseLayouts(Program& program) {
  const auto is_transpose = [&](int node) {
    return program.nodes[node].op->name == "Transpose" && program.nodes[node].control_inputs.empty();
  };
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    for (Value& input : program.nodes[i].inputs) {
      if (!is_transpose(input.node)) continue;
      const Value inner = program.nodes[input.node].inputs[0];
      if (!is_transpose(inner.node)) continue;
      const std::vector<int64_t>& outer_perm = program.nodes[input.node].attrs.Ints("perm");
      const std::vector<int64_t>& inner_perm = program.nodes[inner.node].attrs.Ints("perm");
      bool identity = outer_perm.size() == inner_perm.size();
      for (size_t axis = 0; identity && axis < outer_perm.size(); ++axis) {
        identity = inner_perm[outer_perm[axis]] == static_cast<int64_t>(axis);
      }
      if (identity) input = program.nodes[inner.node].inputs[0];
    }
  }
  return Normalize(program);
}

}  // namespace belfry
