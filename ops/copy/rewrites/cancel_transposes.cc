#include <cstdint>
#include <vector>

#include "framework/compiler/rewrite.h"
#include "ops/copy/copy_ops.h"

namespace belfry::ops {
namespace {

// Axes counted from the front; an empty "perm" reverses them.
std::vector<int64_t> Permutation(const ProgramNode& transpose) {
  std::vector<int64_t> perm = transpose.attrs.Ints("perm");
  const int64_t rank = transpose.outputs[0].shape.rank();
  for (int64_t axis = rank - 1; axis >= 0 && static_cast<int64_t>(perm.size()) < rank; --axis) perm.push_back(axis);
  for (int64_t& axis : perm) axis += axis < 0 ? rank : 0;
  return perm;
}

}  // namespace

absl::Status CancelTransposes(Program& program, const RewriteContext&) {
  const auto is_transpose = [&](int node) {
    return program.nodes[node].op->name == "Transpose" && program.nodes[node].control_inputs.empty();
  };
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    for (Value& input : program.nodes[i].inputs) {
      if (!is_transpose(input.node)) continue;
      const Value inner = program.nodes[input.node].inputs[0];
      if (!is_transpose(inner.node)) continue;
      const Value source = program.nodes[inner.node].inputs[0];
      // A variable may be updated between the transpose that reads it and the node that reads the transpose.
      if (program.nodes[Root(program, source).node].op->kind == OpKind::kVariable) continue;
      const std::vector<int64_t> outer_perm = Permutation(program.nodes[input.node]);
      const std::vector<int64_t> inner_perm = Permutation(program.nodes[inner.node]);
      bool identity = true;
      for (size_t axis = 0; identity && axis < outer_perm.size(); ++axis) {
        identity = inner_perm[outer_perm[axis]] == static_cast<int64_t>(axis);
      }
      if (identity) input = source;
    }
  }
  return Normalize(program);
}

}  // namespace belfry::ops
