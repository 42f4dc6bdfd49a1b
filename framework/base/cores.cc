#include "framework/base/cores.h"

#include <dirent.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace belfry {
namespace {

// Position of a core: NUMA node, package, physical core. Anything the system does not report is 0.
using CorePosition = std::tuple<int, int, int>;

CorePosition PositionOf(int core) {
  const std::string folder = absl::StrCat("/sys/devices/system/cpu/cpu", core);
  const auto number = [&](const char* name) {
    int value = 0;
    std::ifstream(absl::StrCat(folder, "/topology/", name)) >> value;
    return value;
  };
  int node = 0;
  // Not with std::filesystem, which ends the program if there is no memory for an entry.
  if (DIR* const open = opendir(folder.c_str()); open != nullptr) {
    while (const dirent* const entry = readdir(open)) {
      absl::string_view name = entry->d_name;
      if (absl::ConsumePrefix(&name, "node") && absl::SimpleAtoi(name, &node)) break;
    }
    closedir(open);
  }
  return {node, number("physical_package_id"), number("core_id")};
}

// The limit of one group, in cores; infinite if it has none. Version 2 has "QUOTA PERIOD" in one file, version 1 has
// two files; both are in microseconds, and without a limit the quota is "max" or -1.
double LimitOf(const std::string& folder) {
  double quota = 0, period = 0;
  if (!(std::ifstream(absl::StrCat(folder, "/cpu.max")) >> quota >> period)) {
    std::ifstream(absl::StrCat(folder, "/cpu.cfs_quota_us")) >> quota;
    std::ifstream(absl::StrCat(folder, "/cpu.cfs_period_us")) >> period;
  }
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

// The least limit of the group `path` of the hierarchy that lies in `mount`, and of the groups around it.
double LimitOfAll(const std::string& mount, absl::string_view path) {
  double limit = LimitOf(mount);  // in a container `path` may be that of the machine, and `mount` the group itself
  while (absl::StartsWith(path, "/") && path.size() > 1) {
    limit = std::min(limit, LimitOf(absl::StrCat(mount, path)));
    path = path.substr(0, path.rfind('/'));
  }
  return limit;
}

}  // namespace

// /proc/self/cgroup has lines of "NUMBER:CONTROLLERS:PATH"; version 2's has number 0 and no controllers.
int UsableCores(const std::string& root) {
  double limit = static_cast<double>(AvailableCores().size());
  std::ifstream groups(absl::StrCat(root, "/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    const bool unified = fields[0] == "0" && fields[1].empty();
    if (!unified && !absl::c_linear_search(controllers, "cpu")) continue;
    const std::string mount = absl::StrCat(root, "/sys/fs/cgroup", unified ? "" : "/", fields[1]);
    limit = std::min(limit, LimitOfAll(mount, fields[2]));
  }
  return std::max(1, static_cast<int>(std::ceil(limit)));
}

std::vector<int> AvailableCores() {
  std::vector<int> cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  } else {
    for (int core = 0; core < static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); ++core) {
      cores.push_back(core);
    }
  }
  std::vector<std::pair<CorePosition, int>> places;
  for (int core : cores) places.emplace_back(PositionOf(core), core);
  std::sort(places.begin(), places.end());
  std::transform(places.begin(), places.end(), cores.begin(), [](const auto& place) { return place.second; });
  return cores;
}

int ThreadsOfCore(absl::Span<const int> cores) {
  int most = 0, threads = 0;
  for (size_t i = 0; i < cores.size(); ++i) {
    threads = i > 0 && PositionOf(cores[i]) == PositionOf(cores[i - 1]) ? threads + 1 : 1;
    most = std::max(most, threads);
  }
  return std::max(1, most);
}

void BindThisThread(absl::Span<const int> cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) {
    CPU_SET(core, &set);
  }
  // The parallel region is needed even for one thread: when LLVM's OpenMP first meets a thread, it resets that thread's
  // affinity to the cores of the initial thread, so it must have met this one before the affinity is set.
#pragma omp parallel num_threads(omp_get_max_threads())
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace belfry
