#include "framework/compiler/rewrite.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "framework/base/status.h"
#include "framework/graph/infer.h"

namespace belfry {

bool IsReplaced(const RewriteContext& context, const ProgramNode& node) {
  return node.op->HasReplacement(context.devices.device(node.device).type(), KernelDType(*node.op, node.attrs));
}

const OpDef* FusedOp(const RewriteContext& context, absl::string_view name, const ProgramNode& node,
                     std::initializer_list<const ProgramNode*> more) {
  const OpDef* op = context.registry.Find(name);
  if (op == nullptr) return nullptr;
  const std::string type(context.devices.device(node.device).type());
  const DType dtype = KernelDType(*node.op, node.attrs);
  if (op->FindKernel(type, dtype) == nullptr) return nullptr;
  const bool own = IsReplaced(context, node) ||
                   absl::c_any_of(more, [&](const ProgramNode* other) { return IsReplaced(context, *other); });
  return own && !op->HasReplacement(type, dtype) ? nullptr : op;
}

bool ComesFrom(const Program& program, int to, int from, const HashMap<int, int>& became) {
  std::vector<int> open = {to};
  std::vector<char> seen(program.nodes.size(), 0);
  while (!open.empty()) {
    const int i = open.back();
    open.pop_back();
    if (i == from) return true;
    if (std::exchange(seen[i], 1) != 0) continue;
    if (const auto part_of = became.find(i); part_of != became.end()) open.push_back(part_of->second);
    const ProgramNode& node = program.nodes[i];
    for (const Value& input : node.inputs) open.push_back(input.node);
    open.insert(open.end(), node.control_inputs.begin(), node.control_inputs.end());
  }
  return false;
}

void Redirect(Program& program, const HashMap<Value, Value>& values, const HashMap<int, int>& nodes) {
  const auto move_value = [&](Value& value) {
    if (const auto found = values.find(value); found != values.end()) value = found->second;
  };
  const auto move_node = [&](int& node) {
    if (const auto found = nodes.find(node); found != nodes.end()) node = found->second;
  };
  for (ProgramNode& node : program.nodes) {
    absl::c_for_each(node.inputs, move_value);
    absl::c_for_each(node.control_inputs, move_node);
  }
  absl::c_for_each(program.fetches, move_value);
  absl::c_for_each(program.targets, move_node);
}

absl::Status RunRewrites(Program& program, const RewriteContext& context, bool fuse,
                         const std::function<absl::Status(absl::string_view name)>& after) {
  for (const Rewrite& rewrite : context.registry.rewrites()) {
    if (rewrite.fuses && !fuse) continue;
    RETURN_IF_ERROR(rewrite.run(program, context));
    RETURN_IF_ERROR(after(rewrite.name));
  }
  return absl::OkStatus();
}

}  // namespace belfry
