// CHECK: a broken invariant of our own code ends the process. What input or hardware can cause is an absl::Status.
#pragma once

namespace belfry {

// Prints "CHECK failed: <condition> at <file>:<line>" to standard error and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace belfry

#define BELFRY_CHECK(condition) \
  (static_cast<bool>(condition) ? (void)0 : ::belfry::CheckFailed(#condition, __FILE__, __LINE__))
