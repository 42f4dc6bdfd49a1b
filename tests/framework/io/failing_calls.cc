#include "tests/framework/io/failing_calls.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace belfry::io {
namespace {

thread_local int left = -1;  // calls left before the one that fails; negative: none will
thread_local int failure = 0;
thread_local bool came = false;

// True if this call is to fail; errno is then set.
bool Fails() {
  if (left < 0 || left-- > 0) return false;
  came = true;
  if (failure == 0) _exit(FailingCalls::kDied);
  errno = failure;
  return true;
}

}  // namespace

FailingCalls::FailingCalls(int nth, int error) {
  left = nth;
  failure = error;
  came = false;
}
FailingCalls::~FailingCalls() { left = -1; }
bool FailingCalls::met() const { return came; }

}  // namespace belfry::io

// Replacements of the C library's functions.
extern "C" {

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
    if (belfry::io::Fails()) return -1;
  }
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  if (belfry::io::left == 0 && belfry::io::failure == 0) syscall(SYS_write, descriptor, bytes, size / 2);
  if (belfry::io::Fails()) return -1;
  return syscall(SYS_write, descriptor, bytes, size);
}

int fsync(int descriptor) {
  if (belfry::io::Fails()) return -1;
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

int rename(const char* from, const char* to) noexcept {
  if (belfry::io::Fails()) return -1;
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int symlink(const char* target, const char* path) noexcept {
  if (belfry::io::Fails()) return -1;
  return static_cast<int>(syscall(SYS_symlinkat, target, AT_FDCWD, path));
}

int unlink(const char* path) noexcept {
  if (belfry::io::Fails()) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

}  // extern "C"
