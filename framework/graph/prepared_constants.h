// Constants in the forms in which kernels read them.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "framework/base/mutex.h"

namespace belfry {

// Forms of the constants that kernels of one program read, such as the filters of a saved model as a convolution wants
// them. Kernels of the same node share them, so several executables of a plan keep one copy; and a constant whose
// readers all have a form of their own need not be kept. Thread-safe.
class PreparedConstants {
 public:
  PreparedConstants() = default;
  PreparedConstants(const PreparedConstants&) = delete;
  PreparedConstants& operator=(const PreparedConstants&) = delete;
  ~PreparedConstants();

  // The form of input `input` of node `node`: `bytes` bytes, aligned to 64, which `write` fills when it is first asked
  // for, if `data`, the constant's elements, is not null. Null if there is neither a form nor `data`, without memory
  // for it, or if `write` returns false. Lives as long as this object. REQUIRES: `bytes` are always the same.
  const void* Get(int node, int input, const void* data, size_t bytes,
                  absl::FunctionRef<bool(const void* data, void* form)> write);
  // True if Get has returned a form for it.
  bool Has(int node, int input) const;

 private:
  struct Form {
    const void* data;
    size_t bytes;
  };
  void* Allocate(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::pair<int, int>, Form> forms_ ABSL_GUARDED_BY(mutex_);  // by node and input
  std::vector<void*> chunks_ ABSL_GUARDED_BY(mutex_);
  char* free_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the room in the chunk that is being filled
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0, chunk_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace belfry
