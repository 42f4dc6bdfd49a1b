#include "framework/runtime/variable_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

size_t Bytes(const Variable& variable) { return variable.node().outputs()[0].bytes(); }
size_t AlignedBytes(const Variable& variable) { return AlignUp(Bytes(variable)); }

}  // namespace

absl::Status UninitializedError(const Node& variable) {
  const SourceLocation where = variable.location();
  return absl::FailedPreconditionError(absl::StrCat(
      "Attempting to use uninitialized value ", variable.name(), "; run its initializer first (InitializeVariables)",
      where.known() ? absl::StrCat("; it was created at ", where.ToString()) : ""));
}

absl::Status VariableStore::Extend(const Graph& graph, const std::vector<int>& devices_by_node) {
  const std::vector<Variable> all = graph.variables();
  // Allocates all memory before handing out the first pointer, so an error changes nothing.
  std::vector<Arena> arenas;
  for (int device = 0; device < devices_.size(); ++device) {
    std::vector<Variable> trainable, other;
    for (size_t i = seen_; i < all.size(); ++i) {
      if (devices_by_node[all[i].node().id()] == device) (all[i].trainable() ? trainable : other).push_back(all[i]);
    }
    std::reverse(trainable.begin(), trainable.end());
    for (const std::vector<Variable>& variables : {trainable, other}) {
      if (variables.empty()) continue;
      ASSIGN_OR_RETURN(arenas.emplace_back(), Allocate(variables, device));
    }
  }
  for (Arena& arena : arenas) HandOut(std::move(arena));
  seen_ = all.size();
  return absl::OkStatus();
}

absl::StatusOr<VariableStore::Arena> VariableStore::Allocate(const std::vector<Variable>& variables, int device) const {
  size_t total = 0;
  for (const Variable& variable : variables) total += AlignedBytes(variable);
  absl::StatusOr<DeviceMemory> memory = DeviceMemory::Allocate(devices_.device(device), total);
  if (!memory.ok()) {
    return absl::Status(memory.status().code(), absl::StrCat("Allocating ", variables.size(), " variables, ", total,
                                                             " bytes in total: ", memory.status().message()));
  }
  return Arena{.device = device, .variables = variables, .memory = *std::move(memory)};
}

void VariableStore::HandOut(Arena arena) {
  auto* next = static_cast<std::byte*>(arena.memory.data());
  for (const Variable& variable : arena.variables) {
    storage_[&variable.node()] = std::make_unique<VariableStorage>(VariableStorage{
        .data = next, .bytes = Bytes(variable), .device = arena.device, .initialized = variable.transient()});
    next += AlignedBytes(variable);
  }
  memory_.push_back(std::move(arena.memory));
}

}  // namespace belfry
