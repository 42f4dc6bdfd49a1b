#include "absl/strings/str_cat.h"
#include "framework/compiler/verify/places_impl.h"

namespace belfry::verify {

Place PlaceOf(const Plan& plan, Value value) {
  const Storage& storage = plan.memory.outputs[value.node][value.index];
  const Range range{storage.offset, storage.offset + plan.program.spec(value).bytes()};
  if (storage.kind == Storage::Kind::kArena) return {{plan.program.nodes[storage.node].device, -1}, range};
  if (storage.kind == Storage::Kind::kVariable) return {{-1, storage.node}, range};
  return {};
}

Place WorkspaceOf(const Plan& plan, int node) {
  if (plan.workspace_bytes[node] == 0) return {};
  const size_t begin = plan.memory.workspace_offset[node];
  return {{plan.program.nodes[node].device, -1}, {begin, begin + plan.workspace_bytes[node]}};
}

absl::Status Wrong(absl::string_view text) { return absl::InternalError(absl::StrCat("The plan is wrong: ", text)); }

absl::Status Flaw(const ProgramNode& node, absl::string_view text) {
  return Wrong(absl::StrCat(Describe(node), " ", text));
}

}  // namespace belfry::verify
