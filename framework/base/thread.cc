#include "framework/base/thread.h"

#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"

namespace belfry {

absl::StatusOr<std::thread> StartThread(absl::string_view purpose, std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("Cannot start a thread ", purpose, ": ", error.what(),
                     "; raise the limit on threads (ulimit -u, pids.max of the cgroup) or on memory, or use fewer ",
                     "devices or threads (--threads_per_device, --data_threads)"));
  }
}

absl::Status TryThreads(int count) {
  Mutex mutex;
  bool enough = false;
  std::vector<std::thread> threads;
  absl::Status status;
  while (status.ok() && static_cast<int>(threads.size()) < count) {
    auto thread = StartThread(absl::StrCat("for computing, of ", count), [&] {
      const MutexLock lock(mutex);
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
  return status;
}

}  // namespace belfry
