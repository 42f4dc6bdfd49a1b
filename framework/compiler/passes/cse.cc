#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/compiler/passes/passes.h"

namespace belfry {
namespace {

// Equal keys: nodes that compute the same.
std::string Key(const ProgramNode& node) {
  std::string key = absl::StrCat(node.op->name, "|", node.device, "|", AttrsKey(node.attrs));
  for (const Value& input : node.inputs) absl::StrAppend(&key, "|", input.node, ":", input.index);
  for (int control : node.control_inputs) absl::StrAppend(&key, "^", control);
  return key;
}

bool Mergeable(const ProgramNode& node) {
  if (node.op->stateful) return false;
  if (node.op->kind == OpKind::kConst) return node.outputs[0].bytes() <= kMaxFoldedBytes;
  return node.op->kind == OpKind::kKernel || node.op->kind == OpKind::kView;
}

}  // namespace

absl::Status MergeCommonSubexpressions(Program& program) {
  HashMap<std::string, int> first;
  std::vector<int> same(program.nodes.size());
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    ProgramNode& node = program.nodes[i];
    for (Value& input : node.inputs) input.node = same[input.node];
    for (int& control : node.control_inputs) control = same[control];
    same[i] = Mergeable(node) ? first.try_emplace(Key(node), static_cast<int>(i)).first->second : static_cast<int>(i);
  }
  for (Value& fetch : program.fetches) fetch.node = same[fetch.node];
  for (int& target : program.targets) target = same[target];
  return Normalize(program);
}

}  // namespace belfry
