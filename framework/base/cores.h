// The processor's cores, and binding threads to them. Both functions are thread-safe.
#pragma once

#include <vector>

#include "absl/types/span.h"

namespace belfry {

// The cores that this process may run on (in a container, fewer than the machine has), as Linux numbers them.
// Neighbours are adjacent: the hardware threads of one core, then the cores of one NUMA node.
std::vector<int> AvailableCores();

// Binds the calling thread, its OpenMP team (ParallelThreads) and the threads it starts from now on to `cores`. Does
// nothing if `cores` is empty or the system refuses.
void BindThisThread(absl::Span<const int> cores);

}  // namespace belfry
