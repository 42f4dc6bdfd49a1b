// Running out of memory as a Status, and the memory left.
#pragma once

#include <cstddef>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace belfry {

// The memory that oneDNN, OpenMP and the C library may take for a step besides the memory that its plan asks for:
// generated code, packed operands, stacks.
inline constexpr size_t kLibraryBytes = size_t{64} << 20;

// The memory that this process can still take, and the nearest limit: "the limit on address space (ulimit
// -v)".
struct AvailableMemory {
  size_t bytes = 0;
  absl::string_view limit;
};

// The least that is left of the machine's memory and swap, of the control groups' memory, and of the limits on address
// space and data (ulimit -v, ulimit -d). `untouched`: bytes that the process has allocated but not written yet, which
// the machine and the control groups do not count as used. Other processes may take memory at any time. Allocates
// nothing. Thread-safe.
AvailableMemory FindAvailableMemory(size_t untouched = 0);

// ResourceExhausted unless `bytes` of address space are left at this moment. For libraries that crash without memory;
// the error says that the memory is "to make a convolution", for example.
absl::Status TryMemory(absl::string_view purpose, size_t bytes);

// The ResourceExhausted error for a request that there is no memory for: "The step needs 9 MiB". It adds what is left,
// by FindAvailableMemory(untouched), and what to lower. If there is no memory for that either, its message is empty.
absl::Status OutOfMemory(absl::string_view request, size_t untouched = 0) noexcept;
// The same for an exception during something: "training". If much more is left than was asked for, it says that the
// limit is not the reason instead of what to lower.
absl::Status OutOfMemory(absl::string_view during, const std::bad_alloc& error) noexcept;

// The exception of those who cannot return a Status, such as constructors of Tensor. CatchOutOfMemory ends it.
class AllocationFailed final : public std::bad_alloc {
 public:
  explicit AllocationFailed(size_t bytes) noexcept;
  const char* what() const noexcept override { return text_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  char text_[48];
};

// Calls `body`, which returns a Status or a StatusOr, and returns its result, or OutOfMemory if it throws
// std::bad_alloc: the boundary at which that exception of containers and libraries ends.
template <class Body>
auto CatchOutOfMemory(absl::string_view during, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc& error) {
    return OutOfMemory(during, error);
  }
}

}  // namespace belfry
