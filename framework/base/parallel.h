// Splitting one kernel's work over the threads of its CPU device.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace belfry {

// Number of threads that a parallel loop on the calling thread may use: this thread's CPU device's share of the cores.
// It is OpenMP's per-thread setting, so oneDNN and our own loops agree, and no two devices share a pool.
int ParallelThreads();

// Sets ParallelThreads() of the calling thread for the lifetime of the object, then restores the former value.
class ScopedParallelThreads {
 public:
  explicit ScopedParallelThreads(int threads);
  ~ScopedParallelThreads();
  ScopedParallelThreads(const ScopedParallelThreads&) = delete;
  ScopedParallelThreads& operator=(const ScopedParallelThreads&) = delete;

 private:
  int former_;
};

// Starts the threads that parallel loops of the calling thread use, ParallelThreads() - 1 of them, unless it has them
// already. Beside other programs that want the cores they sleep between loops (framework/base/machine/spinning.h).
// Cheap when they are there.
//
// ResourceExhausted if the system refuses them: if OpenMP started them itself, it would end the program.
// FailedPrecondition after fork, on a thread whose team stayed in the parent.
absl::Status StartParallelThreads();

// True if `operations` scalar operations are worth waking threads for, as ParallelFor decides.
bool IsWorthThreads(double operations);

// Calls body(begin, end) on ranges that cover [0, n): on several threads when `n * cost` (cost: about one per scalar
// operation of an item) is worth waking them, otherwise once on the calling thread. The ranges depend only on n, cost
// and ParallelThreads(). If StartParallelThreads fails, all run on the calling one. The single-threaded path never
// allocates.
void ParallelFor(int64_t n, double cost, absl::FunctionRef<void(int64_t begin, int64_t end)> body);

}  // namespace belfry
