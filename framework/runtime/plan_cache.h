// A session's cache of compiled plans and of idle prepared steps.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "framework/compiler/plan.h"
#include "framework/runtime/prepared_step.h"

namespace belfry {

// Plans by key, each with its idle prepared steps. Holds about `limit` bytes: beyond that it evicts the least recently
// used plans with their idle steps, and all but one idle step of the most recently used plan. Guarded by the session.
// It destroys no step itself: an asynchronous one waits for its end, for which the session's mutex must not be held.
class PlanCache {
 public:
  explicit PlanCache(size_t limit) : limit_(limit) {}
  ~PlanCache();

  // Find returns the plan of a key, or null; Add stores a new one. Both count as a use.
  std::shared_ptr<const Plan> Find(const std::string& key);
  void Add(const std::string& key, std::shared_ptr<const Plan> plan);
  // Take removes and returns an idle step of the key, or null; Put returns one, which is evicted if its plan was.
  std::unique_ptr<PreparedStep> Take(const std::string& key);
  void Put(const std::string& key, std::unique_ptr<PreparedStep> step);
  // Evicts all idle steps.
  void DropIdle();
  // Removes and returns the evicted steps: to be destroyed without the session's mutex, which frees their
  // memory.
  std::list<std::unique_ptr<PreparedStep>> TakeEvicted();
  void Clear();

  size_t bytes() const { return bytes_; }
  size_t plans() const { return entries_.size(); }

 private:
  struct Entry {
    std::shared_ptr<const Plan> plan;
    std::list<std::unique_ptr<PreparedStep>> idle;
    uint64_t last_use = 0;
  };

  void Evict(const std::string& kept);
  void EvictIdle(Entry& entry, size_t kept);

  const size_t limit_;
  size_t bytes_ = 0;  // of all entries
  uint64_t uses_ = 0;
  std::map<std::string, Entry> entries_;
  std::list<std::unique_ptr<PreparedStep>> evicted_;  // lists, so that evicting takes no memory
};

}  // namespace belfry
