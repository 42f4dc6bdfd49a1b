// The processor's cores, and which of them a thread runs on. Both functions may be called by any thread.
#pragma once

#include <vector>

#include "absl/types/span.h"

namespace belfry {

// The cores that this process may run on (in a container, fewer than the machine's), by Linux's numbers, neighbours
// side by side: the hardware threads of one core, then the cores of one NUMA node.
std::vector<int> AvailableCores();

// From now on the calling thread, the OpenMP threads that help it (ParallelThreads) and the threads that it starts run
// on `cores` only. Changes nothing if there are none, or if the system refuses.
void BindThisThread(absl::Span<const int> cores);

}  // namespace belfry
