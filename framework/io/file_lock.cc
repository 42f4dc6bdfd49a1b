#include "framework/io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <spdlog/spdlog.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/host_name.h"
#include "framework/base/steady_time.h"

namespace belfry::io {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(20), kQuiet = absl::Seconds(2);
constexpr size_t kMaxName = 200;

// Another user's file in a folder such as /tmp may be locked, but not be opened for writing.
int Open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  return descriptor >= 0 ? descriptor : ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

// False if the file was removed by the holder before, so that a lock on it keeps nobody out.
bool IsAt(int descriptor, const std::string& path) {
  struct stat here {
  }, there{};
  return ::fstat(descriptor, &here) == 0 && ::stat(path.c_str(), &there) == 0 && here.st_dev == there.st_dev &&
         here.st_ino == there.st_ino;
}

void Sign(int descriptor) {
  const std::string name = absl::StrCat("process ", ::getpid(), " on ", HostName(), "\n");
  if (::ftruncate(descriptor, 0) != 0 || ::pwrite(descriptor, name.data(), name.size(), 0) < 0) return;  // unnamed
}

// "process 812 on host (user id 1000)".
std::string HolderOf(int descriptor) {
  std::string name(kMaxName, '\0');
  const ssize_t got = ::pread(descriptor, name.data(), name.size(), 0);
  name.resize(got > 0 ? got : 0);
  name = absl::CHexEscape(absl::StripAsciiWhitespace(name));
  struct stat about {};
  const std::string owner = ::fstat(descriptor, &about) == 0 ? absl::StrCat(" (user id ", about.st_uid, ")") : "";
  return absl::StrCat(name.empty() ? "a process that gives no name" : name, owner);
}

}  // namespace

absl::StatusOr<FileLock> FileLock::Wait(const std::string& path, absl::Time deadline) {
  const absl::Time begin = SteadyNow();
  bool told = false;
  while (true) {
    const int descriptor = Open(path);
    if (descriptor < 0) return FileLock(path, -1);
    const bool locked = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    const bool held = locked || errno == EWOULDBLOCK || errno == EINTR;
    if (locked && IsAt(descriptor, path)) {
      Sign(descriptor);
      return FileLock(path, descriptor);
    }
    // A lock on a file that is gone by now keeps nobody out.
    const std::string holder = held ? HolderOf(descriptor) : "";
    ::close(descriptor);
    if (!held) return FileLock(path, -1);
    const absl::Time now = SteadyNow();
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(path, ": is locked by ", holder, ", which has not released it in ",
                       absl::FormatDuration(absl::Trunc(now - begin, absl::Milliseconds(1))),
                       "; wait for it, end it, or use another folder"));
    }
    if (!told && now - begin > kQuiet) {
      told = true;
      spdlog::info("Waiting for {}, which has locked {}", holder, path);
    }
    absl::SleepFor(std::min(kPause, deadline - now));
  }
}

// The file goes before the lock, so that whoever waits for it finds it gone and makes a new one.
FileLock::~FileLock() {
  if (descriptor_ < 0) return;
  if (IsAt(descriptor_, path_)) ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace belfry::io
