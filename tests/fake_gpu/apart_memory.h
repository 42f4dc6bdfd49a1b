// Memory of fake GPUs that cannot all access each other's.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"

namespace belfry {

// Kernels and copies of such fakes run one at a time. While a kernel runs, memory that its GPU cannot access is
// protected, so touching it crashes the program. Thread-safe.
class ApartMemory {
 public:
  // `apart`: pairs of GPUs that cannot access each other's memory.
  explicit ApartMemory(std::vector<std::pair<int, int>> apart) : apart_(std::move(apart)) {}

  bool Reaches(int from, int to) const;
  void* Allocate(int gpu, size_t bytes);  // null for 0
  void Free(void* memory);
  absl::Status RunKernel(int gpu, absl::FunctionRef<absl::Status()> kernel);
  absl::Status RunCopy(absl::FunctionRef<absl::Status()> copy);

 private:
  struct Block {
    int gpu = 0;
    size_t bytes = 0;  // in whole pages
  };
  void Protect(int gpu, int protection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<std::pair<int, int>> apart_;
  Mutex mutex_;
  std::map<void*, Block> blocks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace belfry
