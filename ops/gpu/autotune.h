// Choosing the fastest of several ways to compute the same thing, by measuring them on the device. Internal.
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

// Libraries expect workspaces aligned to 256 bytes, but a plan aligns them to 64. BytesForLibraries gives the size to
// ask for, AlignForLibraries the aligned start within it.
inline constexpr size_t kLibraryAlignment = 256;
inline size_t BytesForLibraries(size_t bytes) { return bytes == 0 ? 0 : bytes + kLibraryAlignment; }
inline void* AlignForLibraries(void* workspace) {
  return reinterpret_cast<void*>(AlignUp(reinterpret_cast<uintptr_t>(workspace), kLibraryAlignment));
}

// Earlier choices by key, kept in a text file with one line "index<TAB>count<TAB>key" each. Malformed lines, such as a
// crash may leave, are ignored. All devices and processes of a machine share the file: new choices are appended, and
// what others have chosen since is read before a choice is said to be unknown. Thread-safe.
class AutotuneCache {
 public:
  // With an empty path nothing is kept on disk. Failures to read or write are not errors; they only cost another
  // measurement.
  explicit AutotuneCache(std::string path);
  // autotune.txt in CacheFolder(); empty if there is none.
  static std::string DefaultPath();

  // -1 if there is no choice, or if it was made among another number of candidates.
  int Find(absl::string_view key, int count);
  void Add(absl::string_view key, int count, int index);

 private:
  struct Choice {
    int index = 0, count = 0;
  };
  // Reads the file if its size has changed.
  void Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int Lookup(absl::string_view key, int count) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  Mutex mutex_;
  std::map<std::string, Choice, std::less<>> choices_ ABSL_GUARDED_BY(mutex_);
  uint64_t size_ ABSL_GUARDED_BY(mutex_) = 0;      // of the file when it was read
  bool ends_cut_ ABSL_GUARDED_BY(mutex_) = false;  // the file's last line lacks its newline
};

// Enqueues candidate `candidate` once on a stream, on blocks of device memory.
using AutotuneRun = std::function<absl::Status(int candidate, Stream& stream, absl::Span<void* const> blocks)>;

// The cached fastest of `count` candidates on `device`, or -1. This and the next four functions are defined only with
// CUDA.
absl::StatusOr<int> KnownFastest(Device& device, absl::string_view key, int count);
// Stores a choice in the cache.
absl::Status RememberFastest(Device& device, absl::string_view key, int count, int index);
// Measures the candidates on blocks of `bytes` bytes each, and caches and returns the fastest. Returns the first if the
// device has no room for the blocks. They hold zeros, except for the last one, a workspace, which holds 0xff bytes,
// since no kernel may rely on its contents. Candidates that fail are skipped; Unimplemented if all fail.
absl::StatusOr<int> MeasureFastest(Device& device, absl::string_view key, int count, absl::Span<const size_t> bytes,
                                   const AutotuneRun& run);
// KnownFastest, or MeasureFastest if nothing is known.
absl::StatusOr<int> ChooseFastest(Device& device, absl::string_view key, int count, absl::Span<const size_t> bytes,
                                  const AutotuneRun& run);
// The version of cuDNN, for keys: a choice among engines does not hold for another version.
std::string LibraryVersion();

// The faster of two kernels for a node, as measured: `own`, or cuDNN's. Returns `own` if the other cannot be made (with
// a warning, unless it is Unimplemented), and on devices in deterministic mode. `key` describes the computation,
// without dtypes and shapes.
absl::StatusOr<Kernel> FasterKernel(const KernelSpec& spec, absl::string_view key, Kernel own,
                                    const std::function<absl::StatusOr<Kernel>()>& make_library);

}  // namespace belfry::ops
