#include "framework/base/machine/team_cores.h"

#include <omp.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/cores.h"

namespace belfry {

TeamCores::TeamCores(absl::Span<const int> cores, int threads) : cores_(cores.begin(), cores.end()), former_(threads) {
  const int of_core = ThreadsOfCore(cores);
  if (of_core < static_cast<int>(cores.size())) distance_ = of_core;
}

template <class F>
void TeamCores::ForTeam(const F& body) {
  const int threads = static_cast<int>(former_.size());
  if (threads == 1) return body(0);
    // The whole team, for the reason that ParallelFor states. One that has grown keeps its further threads where they
    // are.
#pragma omp parallel
  if (omp_get_thread_num() < threads) body(omp_get_thread_num());
}

void TeamCores::Move(bool away) {
  if (cores_.size() < 2) return;
  ForTeam([&, first = !moved_](int thread) {
    if (first) sched_getaffinity(0, sizeof(cpu_set_t), &former_[thread]);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(CoreOf(thread, away), &set);
    sched_setaffinity(0, sizeof(set), &set);
  });
  moved_ = true;
}

void TeamCores::Restore() {
  if (!moved_) return;
  ForTeam([&](int thread) { sched_setaffinity(0, sizeof(cpu_set_t), &former_[thread]); });
  moved_ = false;
}

std::string TeamCores::Text(bool away) const {
  if (cores_.size() < 2) return "the same cores";
  const size_t threads = std::min(former_.size(), cores_.size());
  std::string text = threads == 1 ? "core " : "cores ";
  for (size_t thread = 0; thread < threads; ++thread) {
    absl::StrAppend(&text, thread == 0 ? "" : ", ", CoreOf(static_cast<int>(thread), away));
  }
  return text;
}

}  // namespace belfry
