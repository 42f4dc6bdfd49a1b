// The part of a session that its prepared steps use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "framework/runtime/run_gate.h"

namespace belfry {

struct SessionState {
  const absl::Duration timeout;  // of every step
  RunGate gate = {};             // guards the variables' bytes and flags, and the device threads
  std::atomic<uint64_t> runs{0};
  std::atomic<size_t> untouched{0};  // bytes on CPUs of prepared steps that have not run yet
  std::atomic<bool> closed{false};
  std::atomic<bool> corrupted{false};  // SessionOptions::recheck
};

}  // namespace belfry
