#include "tests/simulation/lock_order.h"

#include <execinfo.h>

#include <algorithm>

#include "absl/debugging/symbolize.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace belfry::simulation {
namespace {

constexpr size_t kMostNames = 4;

// The functions that called, without those of mutexes and of the simulation.
template <class Calls>
std::string Names(const Calls& calls) {
  std::string names;
  size_t count = 0;
  for (void* const call : calls) {
    char name[256];
    // It is where the call returns to, which may belong to the next function.
    if (call == nullptr || !absl::Symbolize(static_cast<char*>(call) - 1, name, sizeof(name))) continue;
    constexpr absl::string_view kOwn[] = {"pthread_", "std::", "belfry::Mutex",
                                          "simulation::LockOrder::", "simulation::Scheduler::"};
    const auto is_of = [&](absl::string_view own) { return absl::StrContains(name, own); };
    if (count == kMostNames || std::any_of(std::begin(kOwn), std::end(kOwn), is_of)) continue;
    absl::StrAppend(&names, count++ == 0 ? "" : ", called by ", name);
  }
  return names;
}

}  // namespace

void LockOrder::Add(const std::vector<uint64_t>& held, uint64_t taken) {
  for (const uint64_t from : held) {
    if (from == last_from_ && taken == last_to_) continue;
    last_from_ = from;
    last_to_ = taken;
    std::vector<Edge>& edges = edges_[from];
    if (std::any_of(edges.begin(), edges.end(), [&](const Edge& edge) { return edge.to == taken; })) continue;
    Edge edge{.from = from, .to = taken, .calls = {}};
    backtrace(edge.calls.data(), static_cast<int>(edge.calls.size()));
    std::vector<Edge> cycle = {edge};
    std::unordered_set<uint64_t> visited;
    if (from == taken || Find(taken, from, visited, cycle)) {
      const auto is_same = [&](const std::vector<Edge>& other) { return other[0].calls == edge.calls; };
      if (std::none_of(cycles_.begin(), cycles_.end(), is_same)) cycles_.push_back(std::move(cycle));
    }
    edges.push_back(edge);
  }
}

bool LockOrder::Find(uint64_t from, uint64_t end, std::unordered_set<uint64_t>& visited, std::vector<Edge>& way) const {
  const auto found = edges_.find(from);
  if (found == edges_.end()) return false;
  for (const Edge& edge : found->second) {
    if (!visited.insert(edge.to).second) continue;
    way.push_back(edge);
    if (edge.to == end || Find(edge.to, end, visited, way)) return true;
    way.pop_back();
  }
  return false;
}

std::vector<std::string> LockOrder::Cycles() const {
  std::vector<std::string> texts;
  for (const std::vector<Edge>& cycle : cycles_) {
    const bool again = cycle.size() == 1;
    std::string& text = texts.emplace_back(again ? "a thread locks a mutex that it holds:"
                                                 : "mutexes are locked in orders that can deadlock:");
    for (const Edge& edge : cycle) {
      absl::StrAppend(&text, "\n    mutex ", edge.from, ", then ", edge.to, " in ", Names(edge.calls));
    }
  }
  return texts;
}

}  // namespace belfry::simulation
