#include "framework/base/cores.h"

#include <dirent.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace belfry {
namespace {

// Position of a core: NUMA node, package, physical core. Anything the system does not report is 0.
using Place = std::tuple<int, int, int>;

Place PlaceOf(int core) {
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

}  // namespace

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
  std::vector<std::pair<Place, int>> places;
  for (int core : cores) places.emplace_back(PlaceOf(core), core);
  std::sort(places.begin(), places.end());
  std::transform(places.begin(), places.end(), cores.begin(), [](const auto& place) { return place.second; });
  return cores;
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
