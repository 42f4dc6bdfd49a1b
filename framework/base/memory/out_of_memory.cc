#include "framework/base/memory/out_of_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/units.h"

namespace belfry {
namespace {

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();
constexpr size_t kOfContainers = size_t{4} << 30;

// The beginning of a small file of the system. Empty if it cannot be read. Without allocations, since this is asked
// when there is no memory.
class SystemFile {
 public:
  explicit SystemFile(const char* path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    size_t used = 0;
    ssize_t got = 0;
    while (used < text_.size() - 1 && (got = read(file, text_.data() + used, text_.size() - 1 - used)) > 0) used += got;
    close(file);
  }
  const char* text() const { return text_.data(); }
  // The number after `key`, or `otherwise` if there is none, as after "max".
  size_t Number(const char* key, size_t otherwise) const {
    const char* const found = std::strstr(text(), key);
    if (found == nullptr) return otherwise;
    const char* const begin = found + std::strlen(key);
    char* end = nullptr;
    const size_t number = std::strtoull(begin, &end, 10);
    return end == begin ? otherwise : number;
  }

 private:
  std::array<char, 8192> text_{};
};

size_t Left(size_t limit, size_t used) { return limit - std::min(limit, used); }

size_t LeftOfLimit(int resource, size_t used) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return kUnlimited;
  }
  return Left(limit.rlim_cur, used);
}

// The memory that is left to the control group in `folder`, whose files of these names hold its limit and its use.
// Cached files count as used there, but make room for others.
size_t LeftOfGroup(const char* folder, const char* limit_name, const char* used_name) {
  char path[PATH_MAX + 64];
  std::snprintf(path, sizeof(path), "%s/%s", folder, limit_name);
  const size_t limit = SystemFile(path).Number("", kUnlimited);
  if (limit == kUnlimited) return kUnlimited;
  std::snprintf(path, sizeof(path), "%s/%s", folder, used_name);
  const size_t used = SystemFile(path).Number("", 0);
  std::snprintf(path, sizeof(path), "%s/memory.stat", folder);
  const SystemFile statistics(path);
  const size_t cached = statistics.Number("\ninactive_file ", 0) + statistics.Number("\nactive_file ", 0);
  return Left(limit, Left(used, cached));
}

// The least that is left to this process's control group and those above it. `prefix` begins the line of
// /proc/self/cgroup, after the number of the hierarchy. In a container the path may be one of the host, while `root` is
// already that of the container.
size_t LeftOfGroups(const char* prefix, const char* root, const char* limit_name, const char* used_name) {
  const SystemFile groups("/proc/self/cgroup");
  const char* const line = std::strstr(groups.text(), prefix);
  if (line == nullptr) return kUnlimited;
  const char* const begin = line + std::strlen(prefix);
  char folder[PATH_MAX];
  std::snprintf(folder, sizeof(folder), "%s%.*s", root, static_cast<int>(std::strcspn(begin, "\n")), begin);
  size_t left = kUnlimited;
  while (true) {
    left = std::min(left, LeftOfGroup(folder, limit_name, used_name));
    char* const end = std::strrchr(folder, '/');
    if (end == nullptr || end < folder + std::strlen(root)) return left;
    *end = '\0';
  }
}

size_t LeftOfMachine() {
  const SystemFile memory("/proc/meminfo");
  const size_t available = memory.Number("MemAvailable:", kUnlimited);
  return available == kUnlimited ? kUnlimited : (available + memory.Number("SwapFree:", 0)) << 10;
}

}  // namespace

AvailableMemory FindAvailableMemory(size_t untouched) {
  const SystemFile status("/proc/self/status");
  AvailableMemory least{kUnlimited, "the machine's memory"};
  const auto consider = [&](size_t bytes, absl::string_view limit) {
    if (bytes < least.bytes) least = {bytes, limit};
  };
  consider(LeftOfMachine(), "the machine's memory");
  constexpr absl::string_view kGroup = "the memory limit of the control group";
  consider(LeftOfGroups("0::", "/sys/fs/cgroup", "memory.max", "memory.current"), kGroup);
  consider(LeftOfGroups(":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"), kGroup);
  least.bytes = Left(least.bytes, untouched);
  consider(LeftOfLimit(RLIMIT_AS, status.Number("VmSize:", 0) << 10), "the limit on address space (ulimit -v)");
  consider(LeftOfLimit(RLIMIT_DATA, status.Number("VmData:", 0) << 10), "the limit on data (ulimit -d)");
  return least;
}

absl::Status TryMemory(absl::string_view purpose, size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return OutOfMemory(absl::StrCat(bytes >> 20, " MiB of memory are needed ", purpose));
  munmap(memory, bytes);
  return absl::OkStatus();
}

namespace {

// `largest`: bytes of a request that the limit cannot have refused while more than these are left. Not with StrFormat,
// which ends the program if there is no memory for its result.
absl::Status Explain(absl::string_view request, size_t untouched, size_t largest) noexcept {
  try {
    const AvailableMemory available = FindAvailableMemory(untouched);
    char left[32];
    std::snprintf(left, sizeof(left), "%.1f", static_cast<double>(available.bytes) / kMebi);
    return absl::ResourceExhaustedError(absl::StrCat(
        request, ": ", left, " MiB are left of ", available.limit,
        available.bytes > largest ? ", so something else refused it: the kernel's overcommit (vm.overcommit_memory, "
                                    "vm.max_map_count) or the allocator itself"
                                  : "; use a smaller batch, smaller tensors or fewer devices, or raise the limit"));
  } catch (const std::bad_alloc&) {
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

}  // namespace

absl::Status OutOfMemory(absl::string_view request, size_t untouched) noexcept {
  return Explain(request, untouched, kUnlimited);
}

absl::Status OutOfMemory(absl::string_view during, const std::bad_alloc& error) noexcept {
  char request[256];
  const int written = std::snprintf(request, sizeof(request), "Out of memory during %.*s (%s)",
                                    static_cast<int>(during.size()), during.data(), error.what());
  // Containers ask for far less than kOfContainers at a time; a tensor says how large it is.
  const auto* const tensor = dynamic_cast<const AllocationFailed*>(&error);
  return Explain(absl::string_view(request, std::clamp<size_t>(written, 0, sizeof(request) - 1)), 0,
                 tensor == nullptr ? kOfContainers : std::max(kOfContainers, 2 * tensor->bytes()));
}

AllocationFailed::AllocationFailed(size_t bytes) noexcept : bytes_(bytes) {
  std::snprintf(text_, sizeof(text_), "cannot allocate %zu bytes", bytes);
}

}  // namespace belfry
