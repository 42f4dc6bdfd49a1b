#include "framework/base/thread.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/mutex.h"
#include "framework/base/steady_time.h"

namespace belfry {
namespace {

// The argument of sched_setattr(2). Older C libraries do not declare it, and the kernel's header conflicts with
// <sched.h>.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;  // ns
};

constexpr uint64_t kShortestSlice = 100'000;  // ns; Linux gives no shorter ones
constexpr unsigned long kTimerSlack = 1'000;  // ns
constexpr absl::Duration kLongestEnd = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<std::thread> StartThread(absl::string_view purpose, std::function<void()> body) {
  return CatchOutOfMemory("the start of a thread", [&]() -> absl::StatusOr<std::thread> {
    try {
      return std::thread(std::move(body));
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(
          absl::StrCat("Cannot start a thread ", purpose, ": ", error.what(),
                       "; raise the limit on threads (ulimit -u, pids.max of the control group) or on memory, or use ",
                       "fewer devices, fewer threads of each, or fewer threads that read data"));
    }
  });
}

namespace {

// Waits until the system no longer counts a thread that was joined: a moment later.
void AwaitEnd(pid_t thread) {
  const absl::Time give_up = SteadyNow() + kLongestEnd;
  while (syscall(SYS_tgkill, getpid(), thread, 0) == 0 && SteadyNow() < give_up) std::this_thread::yield();
}

// Starts `count` threads, and ends them when all of them run.
absl::Status StartTogether(int count) {
  Mutex mutex;
  bool enough = false;
  const std::string purpose = absl::StrCat("for computing, of ", count);
  std::vector<std::thread> threads;
  std::vector<pid_t> ids;
  threads.reserve(std::max(count, 0));  // no exception may pass a running thread, or leave one
  ids.reserve(std::max(count, 0));
  absl::Status status;
  while (status.ok() && static_cast<int>(threads.size()) < count) {
    auto thread = StartThread(purpose, [&] {
      const MutexLock lock(mutex);
      ids.push_back(gettid());
      mutex.Await([&] { return enough; });
    });
    status = thread.status();
    if (thread.ok()) threads.push_back(*std::move(thread));
  }
  {
    const MutexLock lock(mutex);
    enough = true;
    mutex.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
  for (const pid_t id : ids) AwaitEnd(id);
  return status;
}

}  // namespace

absl::Status TryThreads(int count) {
  return CatchOutOfMemory("the start of threads", [count] { return StartTogether(count); });
}

void UseShortTimeSlices() {
  prctl(PR_SET_TIMERSLACK, kTimerSlack, 0, 0, 0);
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  attributes.runtime = kShortestSlice;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace belfry
