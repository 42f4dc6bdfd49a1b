#include "benchmarks/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <map>

namespace belfry::benchmarks {

size_t LeastArena(const MemoryPlan& memory, int device) {
  std::map<int, int64_t> change;  // by node: bytes that come into use with it, less those that went out of use with its
                                  // predecessor
  for (const MemoryBlock& block : memory.blocks) {
    if (block.device != device) continue;
    change[block.start] += static_cast<int64_t>(block.bytes);
    change[block.end + 1] -= static_cast<int64_t>(block.bytes);
  }
  int64_t held = 0, most = 0;
  for (const auto& [node, bytes] : change) most = std::max(most, held += bytes);
  return static_cast<size_t>(most);
}

}  // namespace belfry::benchmarks
