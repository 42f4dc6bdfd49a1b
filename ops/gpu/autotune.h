// Choosing among several ways to compute the same, by measuring them where they will run. Internal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/alignment.h"
#include "framework/base/mutex.h"
#include "framework/device/device.h"
#include "framework/graph/kernel.h"

namespace belfry::ops {

// Libraries want workspaces aligned to 256 bytes, and a plan's are to 64: what to ask for, and where it then begins.
inline constexpr size_t kLibraryAlignment = 256;
inline size_t BytesForLibraries(size_t bytes) { return bytes == 0 ? 0 : bytes + kLibraryAlignment; }
inline void* AlignForLibraries(void* workspace) {
  return reinterpret_cast<void*>(AlignUp(reinterpret_cast<uintptr_t>(workspace), kLibraryAlignment));
}

// What was chosen before, by key, in a text file: one line "index<TAB>count<TAB>key" each. Lines that do not read so,
// as a crash may leave them, are ignored. Several processes may use one file: a new choice is appended. Thread-safe.
class AutotuneCache {
 public:
  // An empty path: nothing is kept on disk. What cannot be read or written is no error, only measured again.
  explicit AutotuneCache(std::string path);
  // BELFRY_CACHE_DIR, else XDG_CACHE_HOME/belfry, else HOME/.cache/belfry, with autotune.txt in it; empty if none is
  // set.
  static std::string DefaultPath();

  // -1 if there is none, or if it was chosen among another number of candidates.
  int Find(absl::string_view key, int count) const;
  void Add(absl::string_view key, int count, int index);

 private:
  struct Choice {
    int index = 0, count = 0;
  };
  const std::string path_;
  mutable Mutex mutex_;
  std::map<std::string, Choice, std::less<>> choices_ ABSL_GUARDED_BY(mutex_);
  bool ends_cut_ ABSL_GUARDED_BY(mutex_) = false;  // the file's last line has no end
};

// Runs candidate `candidate` once on a stream, on blocks of device memory.
using AutotuneRun = std::function<absl::Status(int candidate, Stream& stream, absl::Span<void* const> blocks)>;

// What the cache says is the fastest of `count` candidates on `device`; -1 if it says nothing. Defined with CUDA only,
// as are the next four.
absl::StatusOr<int> KnownFastest(Device& device, absl::string_view key, int count);
// Has the cache say so.
absl::Status RememberFastest(Device& device, absl::string_view key, int count, int index);
// The fastest of them, each measured some times on blocks of `bytes` bytes, for the cache to know; or the first, if the
// device has no room for the blocks. They hold zeros, but the last one, a workspace, ones: no kernel may count on what
// it finds there. One that fails is left out; Unimplemented if all do.
absl::StatusOr<int> MeasureFastest(Device& device, absl::string_view key, int count, absl::Span<const size_t> bytes,
                                   const AutotuneRun& run);
// KnownFastest, else MeasureFastest.
absl::StatusOr<int> ChooseFastest(Device& device, absl::string_view key, int count, absl::Span<const size_t> bytes,
                                  const AutotuneRun& run);
// For keys: what chose among cuDNN's engines may not hold for those of another version.
std::string LibraryVersion();

// Of two kernels for a node the one that was measured to be faster: `own`, or cuDNN's. `own` where the other cannot be
// made, with a warning unless it is Unimplemented, and on a device that must give the same bits always. `key` says what
// the node computes, without dtypes and shapes.
absl::StatusOr<Kernel> FasterKernel(const KernelSpec& spec, absl::string_view key, Kernel own,
                                    const std::function<absl::StatusOr<Kernel>()>& make_library);

}  // namespace belfry::ops
