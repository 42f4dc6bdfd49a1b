#include "framework/runtime/plan_cache.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace belfry {
namespace {

// An estimate for a node, its instructions and its kernel.
constexpr size_t kBytesPerNode = 2048;

// The bytes of a plan, with the constants that were computed for it and the forms in which kernels read constants,
// which are about as large as these. Constants of the graph belong to the graph.
size_t TableBytes(const Plan& plan) {
  const Program& program = plan.program;
  size_t bytes = program.nodes.size() * kBytesPerNode;
  for (int i = 0; i < static_cast<int>(program.nodes.size()); ++i) {
    const ProgramNode& node = program.nodes[i];
    const bool computed = node.op->kind == OpKind::kConst && node.source->op().kind != OpKind::kConst;
    if (computed && node.attrs.Get<Tensor>("value").raw() != nullptr) bytes += node.outputs[0].bytes();
    for (int input = 0; program.prepared != nullptr && input < static_cast<int>(node.inputs.size()); ++input) {
      if (program.prepared->Has(i, input)) bytes += program.spec(node.inputs[input]).bytes();
    }
  }
  return bytes;
}
// One prepared step: its arenas and its copies of the fetches.
size_t StepBytes(const Plan& plan) {
  size_t bytes = std::accumulate(plan.memory.arena_bytes.begin(), plan.memory.arena_bytes.end(), size_t{0});
  for (const Value& fetch : plan.program.fetches) bytes += plan.program.spec(fetch).bytes();
  return bytes;
}

}  // namespace

PlanCache::~PlanCache() = default;

std::shared_ptr<const Plan> PlanCache::Find(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  found->second.last_use = ++uses_;
  return found->second.plan;
}

void PlanCache::Add(const std::string& key, std::shared_ptr<const Plan> plan) {
  const size_t bytes = TableBytes(*plan);
  entries_[key] = {.plan = std::move(plan), .last_use = ++uses_};
  bytes_ += bytes;
  Evict(key);
}

std::unique_ptr<PreparedStep> PlanCache::Take(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.idle.empty()) return nullptr;
  Entry& entry = found->second;
  std::unique_ptr<PreparedStep> step = std::move(entry.idle.back());
  entry.idle.pop_back();
  entry.last_use = ++uses_;
  bytes_ -= StepBytes(*entry.plan);
  return step;
}

void PlanCache::Put(const std::string& key, std::unique_ptr<PreparedStep> step) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    evicted_.push_back(std::move(step));
    return;
  }
  found->second.idle.push_back(std::move(step));
  bytes_ += StepBytes(*found->second.plan);
  Evict(key);
}

void PlanCache::DropIdle() {
  for (auto& [key, entry] : entries_) EvictIdle(entry, 0);
}

std::list<std::unique_ptr<PreparedStep>> PlanCache::TakeEvicted() { return std::exchange(evicted_, {}); }

void PlanCache::Clear() {
  DropIdle();
  entries_.clear();
  bytes_ = 0;
}

void PlanCache::Evict(const std::string& kept) {
  while (bytes_ > limit_ && entries_.size() > 1) {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->first == kept) continue;
      if (oldest == entries_.end() || entry->second.last_use < oldest->second.last_use) oldest = entry;
    }
    EvictIdle(oldest->second, 0);
    bytes_ -= std::min(bytes_, TableBytes(*oldest->second.plan));  // an executable may have added forms
    entries_.erase(oldest);
  }
  Entry& last = entries_.at(kept);
  while (bytes_ > limit_ && last.idle.size() > 1) EvictIdle(last, last.idle.size() - 1);
}

void PlanCache::EvictIdle(Entry& entry, size_t kept) {
  while (entry.idle.size() > kept) {
    bytes_ -= StepBytes(*entry.plan);
    evicted_.splice(evicted_.end(), entry.idle, std::prev(entry.idle.end()));
  }
}

}  // namespace belfry
