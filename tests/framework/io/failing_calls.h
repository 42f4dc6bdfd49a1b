// System calls that go wrong when a test wants it.
#pragma once

namespace belfry::io {

// While it lives, the calls of this thread that change the disk are counted, from 0: making a file, write, fsync,
// rename, symlink and unlink. Number `nth` goes wrong: it fails with `error`, having done nothing, or, if `error` is 0,
// ends the process with exit code kDied before it is done; of a write, after half of it is. One at a time.
class FailingCalls {
 public:
  static constexpr int kDied = 77;
  FailingCalls(int nth, int error);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  // Whether the call came.
  bool met() const;
};

}  // namespace belfry::io
