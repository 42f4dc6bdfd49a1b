#include "framework/runtime/variable_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

constexpr size_t kAlignment = 64;

size_t Bytes(const Variable& variable) { return variable.node().outputs()[0].bytes(); }
size_t AlignedBytes(const Variable& variable) { return (Bytes(variable) + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

absl::Status VariableStore::Extend(const Graph& graph, const std::vector<int>& devices_by_node) {
  const std::vector<Variable> all = graph.variables();
  for (int device = 0; device < devices_.size(); ++device) {
    std::vector<Variable> trainable, other;
    for (size_t i = seen_; i < all.size(); ++i) {
      if (devices_by_node[all[i].node().id()] == device) (all[i].trainable() ? trainable : other).push_back(all[i]);
    }
    std::reverse(trainable.begin(), trainable.end());
    RETURN_IF_ERROR(AllocateFlat(trainable, device));
    RETURN_IF_ERROR(AllocateFlat(other, device));
  }
  seen_ = all.size();
  return absl::OkStatus();
}

absl::Status VariableStore::AllocateFlat(const std::vector<Variable>& variables, int device) {
  size_t total = 0;
  for (const Variable& variable : variables) total += AlignedBytes(variable);
  absl::StatusOr<DeviceMemory> arena = DeviceMemory::Allocate(devices_.device(device), total);
  if (!arena.ok()) {
    return absl::Status(arena.status().code(), absl::StrCat("Allocating ", variables.size(), " variables of ", total,
                                                            " bytes: ", arena.status().message()));
  }
  auto* next = static_cast<std::byte*>(arena->data());
  for (const Variable& variable : variables) {
    storage_[&variable.node()] =
        std::make_unique<VariableStorage>(VariableStorage{.data = next, .bytes = Bytes(variable), .device = device});
    next += AlignedBytes(variable);
  }
  arenas_.push_back(*std::move(arena));
  return absl::OkStatus();
}

}  // namespace belfry
