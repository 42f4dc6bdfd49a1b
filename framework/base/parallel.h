// Splitting one kernel's work over the threads of its CPU device.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace belfry {

// Threads that a parallel loop on the calling thread may use: the share of the cores of the CPU device whose work this
// thread does. OpenMP's per-thread setting, so oneDNN and our own loops agree and no two devices share a pool.
int ParallelThreads();

// Sets ParallelThreads() of the calling thread for its own life, and puts the former value back.
class ScopedParallelThreads {
 public:
  explicit ScopedParallelThreads(int threads);
  ~ScopedParallelThreads();
  ScopedParallelThreads(const ScopedParallelThreads&) = delete;
  ScopedParallelThreads& operator=(const ScopedParallelThreads&) = delete;

 private:
  int former_;
};

// Calls body(begin, end) on ranges that cover [0, n), on several threads when `n * cost` (cost: about one per scalar
// operation of an item) is worth a hand-over, else once on the calling thread. Range borders depend on n, cost and
// ParallelThreads() only. Never allocates on the single-threaded path.
void ParallelFor(int64_t n, double cost, absl::FunctionRef<void(int64_t begin, int64_t end)> body);

}  // namespace belfry
