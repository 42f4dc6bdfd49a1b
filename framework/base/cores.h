// The processor's cores, and binding threads to them. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace belfry {

// The cores that this process may run on (in a container, fewer than the machine has), as Linux numbers them.
// Neighbours are adjacent: the hardware threads of one core, then the cores of one NUMA node.
std::vector<int> AvailableCores();

// The most neighbours in `cores` that are hardware threads of one core, as far as the system says; at least 1.
int ThreadsOfCore(absl::Span<const int> cores);

// The number of cores that this process may keep busy: all of AvailableCores(), or fewer if its control groups limit
// its processor time, as `docker run --cpus=2` and the CPU limit of a Kubernetes container do; rounded up, at least 1.
// `root` is where the system's files /proc and /sys lie; tests have their own.
int UsableCores(const std::string& root = "");

// Binds the calling thread, its OpenMP team (ParallelThreads) and the threads it starts from now on to `cores`. Does
// nothing if `cores` is empty or the system refuses.
void BindThisThread(absl::Span<const int> cores);

}  // namespace belfry
