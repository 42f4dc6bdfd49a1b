// The memory of variables, which outlives steps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device/device_set.h"
#include "framework/graph/graph.h"

namespace belfry {

// The memory of one variable.
struct VariableStorage {
  void* data = nullptr;
  size_t bytes = 0;
  int device = -1;
  bool initialized = false;
  // The checksum of its bytes, where it is known; whoever changes these resets it (Recheck).
  std::optional<uint64_t> checksum = std::nullopt;
};

// FailedPrecondition, with the line that made the variable.
absl::Status UninitializedError(const Node& variable);

// Owned by a Session, which guards it. The trainable variables of a device lie in one flat arena, in reverse order of
// creation, which is the order in which their gradients appear. The others lie in a second arena, in order of creation.
class VariableStore {
 public:
  explicit VariableStore(const DeviceSet& devices) : devices_(devices) {}

  // Allocates the graph's variables that have no memory yet, on the devices in `devices_by_node`. Pointers given out
  // before stay valid; after an error nothing has changed.
  absl::Status Extend(const Graph& graph, const std::vector<int>& devices_by_node);
  // The memory of the variable that `node` represents. REQUIRES: Extend has seen it.
  VariableStorage& at(const Node* node) { return *storage_.at(node); }

 private:
  struct Arena {
    int device = 0;
    std::vector<Variable> variables;
    DeviceMemory memory;
  };

  absl::StatusOr<Arena> Allocate(const std::vector<Variable>& variables, int device) const;
  void HandOut(Arena arena);

  const DeviceSet& devices_;
  size_t seen_ = 0;
  std::vector<DeviceMemory> memory_;
  std::map<const Node*, std::unique_ptr<VariableStorage>> storage_;
};

}  // namespace belfry
