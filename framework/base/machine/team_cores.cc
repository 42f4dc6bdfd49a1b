#include "framework/base/machine/team_cores.h"

#include <omp.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/cores.h"

namespace belfry {
namespace {

// Binds the calling thread.
void Bind(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace

TeamCores::TeamCores(absl::Span<const int> cores, int threads) : team_(threads) {
  if (cores.size() < 2) return;
  next_.resize(static_cast<size_t>(*std::max_element(cores.begin(), cores.end())) + 1, -1);
  size_t distance = static_cast<size_t>(ThreadsOfCore(cores));
  if (distance >= cores.size()) distance = 1;
  for (size_t i = 0; i < cores.size(); ++i) next_[cores[i]] = cores[(i + distance) % cores.size()];
}

template <class F>
void TeamCores::ForTeam(const F& body) {
  // The whole team, for the reason that ParallelFor states; one that has grown keeps its further threads in place.
  if (team_.size() == 1) return body(team_[0]);
#pragma omp parallel
  if (omp_get_thread_num() < static_cast<int>(team_.size())) body(team_[omp_get_thread_num()]);
}

void TeamCores::Stay() {
  if (next_.empty()) return;
  ForTeam([&](Member& member) {
    sched_getaffinity(0, sizeof(cpu_set_t), &member.former);
    member.from = sched_getcpu();
    member.to = member.from < static_cast<int>(next_.size()) ? next_[member.from] : -1;
    if (member.to >= 0) Bind(member.from);
  });
  bound_ = true;
}

void TeamCores::Move() {
  if (next_.empty()) return;
  if (!bound_) Stay();
  ForTeam([](const Member& member) {
    if (member.to >= 0) Bind(member.to);
  });
}

void TeamCores::Restore() {
  if (!bound_) return;
  ForTeam([](const Member& member) { sched_setaffinity(0, sizeof(cpu_set_t), &member.former); });
  bound_ = false;
}

std::string TeamCores::Text() const {
  if (next_.empty() || team_[0].to < 0) return "on the same cores";
  std::string before = team_.size() == 1 ? "on core " : "on cores ", after = before;
  for (const Member& member : team_) {
    absl::StrAppend(&before, &member == team_.data() ? "" : ", ", member.from);
    absl::StrAppend(&after, &member == team_.data() ? "" : ", ", member.to < 0 ? member.from : member.to);
  }
  return absl::StrCat(before, " and then ", after);
}

}  // namespace belfry
