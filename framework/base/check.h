// CHECK, for broken invariants of our own code: it ends the process. Failures that input or hardware can cause are
// reported as an absl::Status.
#pragma once

namespace belfry {

// Prints "CHECK failed: <condition> at <file>:<line>" to standard error and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace belfry

#define BELFRY_CHECK(condition) \
  (static_cast<bool>(condition) ? (void)0 : ::belfry::CheckFailed(#condition, __FILE__, __LINE__))
