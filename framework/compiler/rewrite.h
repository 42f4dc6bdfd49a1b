// The arguments and shared helpers of rewrites (OpRegistry::AddRewrite).
#pragma once

#include <functional>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/base/memory/hash_table.h"
#include "framework/compiler/program.h"
#include "framework/device/device_set.h"
#include "framework/graph/op_def.h"

namespace belfry {

// Borrowed for one compilation. Every node has a device (ProgramNode::device), an index into `devices`.
struct RewriteContext {
  const OpRegistry& registry;
  const DeviceSet& devices;
};

// True if a program has replaced the kernel of the node (OpRegistry::AddKernels). A rewrite that changes the inputs or
// attributes of such a node, or has another compute its result, would compute something else.
bool IsReplaced(const RewriteContext& context, const ProgramNode& node);

// The op `name` of the registry, if it may take the place of `node` and the nodes `more`; null if not. The test before
// several nodes become one. It needs a kernel for the dtype and the device of `node`. Where a program has replaced the
// kernel of one of the nodes (OpRegistry::AddKernels), that is to run, unless the kernel of `name` was replaced too.
const OpDef* FusedOp(const RewriteContext& context, absl::string_view name, const ProgramNode& node,
                     std::initializer_list<const ProgramNode*> more = {});

// True if node `to` is computed from node `from`, or waits for it. `became`: nodes that became part of others, by node.
bool ComesFrom(const Program& program, int to, int from, const HashMap<int, int>& became = {});

// Makes all readers of a key of `values`, fetches too, read its value, and all that wait for a key of `nodes`, targets
// too, wait for its value.
void Redirect(Program& program, const HashMap<Value, Value>& values, const HashMap<int, int>& nodes = {});

// Runs the registry's rewrites in order. `after` is called after each, with its name. The first error wins.
absl::Status RunRewrites(Program& program, const RewriteContext& context, bool fuse,
                         const std::function<absl::Status(absl::string_view name)>& after);

}  // namespace belfry
