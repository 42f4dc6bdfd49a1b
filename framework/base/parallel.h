// Splitting one kernel's work over the threads of its CPU device.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "framework/base/memory/out_of_memory.h"

namespace belfry {

// Number of threads that a parallel loop on the calling thread may use: this thread's CPU device's share of the cores.
// It is OpenMP's per-thread setting, so oneDNN and our own loops agree, and no two devices share a pool.
int ParallelThreads();

// Sets ParallelThreads() of the calling thread for the lifetime of the object, then restores the former value. OpenMP's
// limit (OMP_THREAD_LIMIT) holds. Meanwhile the thread's teams have that size, whatever the program or the environment
// says about dynamic teams (OMP_DYNAMIC) and active levels (OMP_MAX_ACTIVE_LEVELS), except within a parallel region.
class ScopedParallelThreads {
 public:
  explicit ScopedParallelThreads(int threads);
  ~ScopedParallelThreads();
  ScopedParallelThreads(const ScopedParallelThreads&) = delete;
  ScopedParallelThreads& operator=(const ScopedParallelThreads&) = delete;

 private:
  int former_;
  bool dynamic_ = false, inactive_ = false;  // the program's own settings
};

// Starts the threads that parallel loops of the calling thread use, ParallelThreads() - 1 of them, unless it has them
// already. Beside other programs that want the cores they sleep between loops (framework/base/machine/spinning.h).
// Cheap when they are there.
//
// ResourceExhausted if the system refuses them: if OpenMP started them itself, it would end the program.
// FailedPrecondition after fork, on a thread whose team stayed in the parent; within a parallel region, whose threads
// have no teams of their own; and if OpenMP gives a smaller team.
absl::Status StartParallelThreads();

// True on a thread of a parallel region of OpenMP that has several threads, a host's or a loop's of ours.
bool InParallelRegion();

// Calls `body` on a thread of its own and waits for it. ResourceExhausted if the system refuses one.
absl::Status OnThread(absl::FunctionRef<void()> body);

// Calls `body`, which returns a Status or a StatusOr, where StartParallelThreads works: on a thread of its own if the
// calling one is within a parallel region, otherwise on the calling one. ResourceExhausted if the system refuses the
// thread, or if `body` throws std::bad_alloc on it.
template <class Body>
auto OutsideParallelRegion(const Body& body) -> decltype(body()) {
  if (!InParallelRegion()) return body();
  decltype(body()) result;
  const absl::Status status = OnThread([&] { result = CatchOutOfMemory("a step", body); });
  if (!status.ok()) return status;
  return result;
}

// True if `operations` scalar operations are worth waking threads for, as ParallelFor decides.
bool IsWorthThreads(double operations);

// Calls body(begin, end) on ranges that cover [0, n): on several threads when `n * cost` (cost: about one per scalar
// operation of an item) is worth waking them, otherwise once on the calling thread. The ranges depend only on n, cost
// and ParallelThreads(). If StartParallelThreads fails, all run on the calling one, and on a smaller team than asked
// for threads run several. The single-threaded path never allocates.
void ParallelFor(int64_t n, double cost, absl::FunctionRef<void(int64_t begin, int64_t end)> body);

}  // namespace belfry
