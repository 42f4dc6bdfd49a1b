#include "framework/compiler/rewrite.h"

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "framework/base/status.h"
#include "framework/graph/infer.h"

namespace belfry {

const OpDef* FusedOp(const RewriteContext& context, absl::string_view name, const ProgramNode& node,
                     std::initializer_list<const ProgramNode*> more) {
  const OpDef* op = context.registry.Find(name);
  if (op == nullptr) return nullptr;
  const auto replaced = [&](const OpDef& of, const ProgramNode& at) {
    return of.HasReplacement(context.devices.device(at.device).type(), KernelDType(*at.op, at.attrs));
  };
  if (op->FindKernel(context.devices.device(node.device).type(), KernelDType(*node.op, node.attrs)) == nullptr) {
    return nullptr;
  }
  const bool own = replaced(*node.op, node) ||
                   absl::c_any_of(more, [&](const ProgramNode* other) { return replaced(*other->op, *other); });
  return own && !replaced(*op, node) ? nullptr : op;
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
