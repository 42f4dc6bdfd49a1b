#include "framework/base/memory/out_of_memory.h"

#include <sys/resource.h>

#include <cstdlib>
#include <new>
#include <string>

#include "absl/status/statusor.h"
#include "framework/base/tensor.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr size_t kMebibyte = size_t{1} << 20;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(Memory, SomeIsLeft) {
  const AvailableMemory available = FindAvailableMemory();
  EXPECT_GT(available.bytes, kMebibyte);
  EXPECT_LT(available.bytes, size_t{1} << 50);
  EXPECT_FALSE(available.limit.empty());
  EXPECT_EQ(TryMemory("for a test", kMebibyte), absl::OkStatus());
}

TEST(Memory, WhatIsAllocatedButUntouchedIsNotLeft) {
  const size_t left = FindAvailableMemory().bytes;
  EXPECT_LT(FindAvailableMemory(left / 2).bytes, left / 4 * 3);
  EXPECT_EQ(FindAvailableMemory(size_t{1} << 60).bytes, 0);
}

TEST(Memory, ALimitOnAddressSpaceIsTheNearest) {
  const auto limited = [] {
    void* volatile room = std::malloc(64 << 10);  // on the heap, for the text
    std::free(room);
    const rlimit limit{.rlim_cur = kMebibyte, .rlim_max = kMebibyte};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
    if (FindAvailableMemory().bytes != 0) std::_Exit(3);
    const absl::Status status = TryMemory("for a test", 64 * kMebibyte);
    const bool tells = status.message().find(
                           "64 MiB of memory are needed for a test: 0.0 MiB are left of the limit on "
                           "address space (ulimit -v); use a smaller batch") != std::string::npos;
    std::_Exit(absl::IsResourceExhausted(status) && tells ? 0 : 1);
  };
  EXPECT_EXIT(limited(), testing::ExitedWithCode(0), "");
}

TEST(Memory, BadAllocBecomesAStatus) {
  EXPECT_EQ(CatchOutOfMemory("a test", [] { return absl::OkStatus(); }), absl::OkStatus());
  EXPECT_EQ(CatchOutOfMemory("a test", [] { return absl::StatusOr<int>(3); }).value(), 3);
  const absl::Status status = CatchOutOfMemory("a test", []() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(Message(status), AllOf(HasSubstr("Out of memory during a test (std::bad_alloc): "),
                                     HasSubstr(" MiB are left of "), Not(HasSubstr("--"))));
}

TEST(Memory, TheLimitIsBlamedOnlyIfItIsTheReason) {
  const size_t left = FindAvailableMemory().bytes;
  const auto failed = [](size_t bytes) { return Message(OutOfMemory("a test", AllocationFailed(bytes))); };
  EXPECT_THAT(failed(left), AllOf(HasSubstr("; use a smaller batch, smaller tensors or fewer devices, or raise"),
                                  Not(HasSubstr("something else"))));
  if (left < (size_t{5} << 30)) GTEST_SKIP() << "this machine has too little memory for a small request";
  EXPECT_THAT(failed(100), AllOf(HasSubstr("so something else refused it"), Not(HasSubstr("smaller batch"))));
}

TEST(Memory, ATensorThatIsTooLargeSaysHowLargeItIs) {
  const absl::Status status = CatchOutOfMemory("a test", [] {
    const Tensor tensor(DType::kFloat32, {int64_t{1} << 44});
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("cannot allocate 70368744177664 bytes"));
}

}  // namespace
}  // namespace belfry
