#include "framework/base/parallel.h"

#include <omp.h>

#include <algorithm>

namespace belfry {
namespace {

// Waking a sleeping OpenMP team takes some microseconds, so each thread must get at least this many scalar operations.
constexpr double kOperationsPerThread = 32 * 1024;

}  // namespace

int ParallelThreads() { return omp_get_max_threads(); }

ScopedParallelThreads::ScopedParallelThreads(int threads) : former_(omp_get_max_threads()) {
  // If a team comes out smaller than announced (OMP_THREAD_LIMIT), oneDNN waits forever for the missing threads.
  omp_set_num_threads(std::min(threads, omp_get_thread_limit()));
}
ScopedParallelThreads::~ScopedParallelThreads() { omp_set_num_threads(former_); }

void ParallelFor(int64_t n, double cost, absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (n <= 0) return;
  const double work = static_cast<double>(n) * cost;
  int64_t threads = 1;
  if (work >= 2 * kOperationsPerThread) {
    threads = std::min({static_cast<int64_t>(ParallelThreads()), static_cast<int64_t>(work / kOperationsPerThread), n});
  }
  if (threads <= 1) return body(0, n);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int64_t t = 0; t < threads; ++t) body(n * t / threads, n * (t + 1) / threads);
}

}  // namespace belfry
