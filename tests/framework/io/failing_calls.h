// System calls that fail on demand.
#pragma once

namespace belfry::io {

// While an object lives, counts this thread's calls that change the disk, from 0: creating a file, write, fsync,
// rename, symlink and unlink. Call number `nth` fails with `error` without doing anything or, if `error` is 0, ends the
// process with exit code kDied before it is done (in a write, after half of it). One object at a time.
class FailingCalls {
 public:
  static constexpr int kDied = 77;
  FailingCalls(int nth, int error);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  // True if the call was made.
  bool met() const;
};

}  // namespace belfry::io
