#include "framework/compiler/rewrite.h"

#include "absl/status/status.h"
#include "framework/base/status.h"
#include "framework/graph/infer.h"

namespace belfry {

const OpDef* FusedOp(const RewriteContext& context, absl::string_view name, const ProgramNode& node) {
  const OpDef* op = context.registry.Find(name);
  if (op == nullptr) return nullptr;
  const DType dtype = KernelDType(*node.op, node.attrs);
  return op->FindKernel(context.devices.device(node.device).type(), dtype) == nullptr ? nullptr : op;
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
