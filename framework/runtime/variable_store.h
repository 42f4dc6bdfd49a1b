// The storage of variables, which outlives steps.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device/device_set.h"
#include "framework/graph/graph.h"

namespace belfry {

// Memory of one variable.
struct VariableStorage {
  void* data = nullptr;
  size_t bytes = 0;
  int device = -1;
  bool initialized = false;
};

// Owned by a Session, which guards it. Trainable variables of a device lie in one flat arena, the last made first: the
// order in which their gradients appear. So do its other variables, in the order of their making.
class VariableStore {
 public:
  explicit VariableStore(const DeviceSet& devices) : devices_(devices) {}

  // Allocates whatever variables of the graph have no memory yet, on the devices that `devices_by_node` says. Pointers
  // that were given out stay valid; after an error nothing has changed.
  absl::Status Extend(const Graph& graph, const std::vector<int>& devices_by_node);
  // The storage of the variable that `node` stands for. REQUIRES: Extend has seen it.
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
  absl::flat_hash_map<const Node*, std::unique_ptr<VariableStorage>> storage_;
};

}  // namespace belfry
