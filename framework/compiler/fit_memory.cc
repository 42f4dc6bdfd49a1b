#include "framework/compiler/fit_memory.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "framework/compiler/memory_report.h"

namespace belfry {
namespace {

// Budgets to try, as shares of the limit: places in an arena leave gaps, and the simulation does not see all that
// streams and collectives keep.
constexpr double kShares[] = {1, 0.985, 0.97, 0.95, 0.93, 0.9, 0.86, 0.8, 0.7};
// The ratio of each further budget to the one before, from the memory without recomputation down, if none fits.
constexpr double kFall = 0.75;
constexpr int kFalls = 6;

// Tries budgets for a plan, and keeps the best result.
class BudgetSearch {
 public:
  BudgetSearch(const Plan& plan, const DeviceSet& devices, size_t limit)
      : plan_(plan), devices_(devices), limit_(limit), copies_(CopyBytes(plan, devices)), best_(plan) {
    least_ = Over(plan.memory.arena_bytes);
    // Streams and memory belong to the program without recomputation.
    plan_.streams.clear();
    plan_.events = 0;
    plan_.memory = {};
  }

  bool fits() const { return Over(best_.memory.arena_bytes) == 0; }
  // Close enough for a little smaller budget to fit.
  bool is_close() const { return least_ < limit_ / 4; }

  // `budget_of`: bytes for the arena of a device, by its index.
  template <class BudgetOf>
  void Try(const BudgetOf& budget_of) {
    Plan plan = plan_;
    std::vector<size_t> expected;
    for (int device = 0; device < devices_.size(); ++device) {
      expected.push_back(RecomputeWithin(plan, device, budget_of(device)));
    }
    // An arena is hardly smaller than expected, so this one does not fit. It is planned if no other needs less.
    if (Over(expected) > limit_ / 16) {
      if (Over(expected) >= least_) return;
      least_ = Over(expected);
      unplanned_ = std::move(plan);
      return;
    }
    Consider(std::move(plan));
  }

  Plan Take() {
    if (!fits() && unplanned_.has_value()) Consider(*std::move(unplanned_));
    if (best_.recomputation.nodes > 0) best_.recomputation.share = TimeOf(best_) / TimeOf(plan_) - 1;
    return std::move(best_);
  }

 private:
  void Consider(Plan plan) {
    if (plan.recomputation.nodes == 0) return;
    AssignStreams(plan, devices_);
    PlanMemory(plan, devices_.size());
    const size_t over = Over(plan.memory.arena_bytes);
    least_ = std::min(least_, over);
    if (over < Over(best_.memory.arena_bytes)) best_ = std::move(plan);
  }

  // Bytes above the limit on the device where they are most.
  size_t Over(const std::vector<size_t>& arenas) const {
    size_t over = 0;
    for (size_t device = 0; device < arenas.size(); ++device) {
      const size_t needed = arenas[device] + copies_[device];
      over = std::max(over, needed - std::min(needed, limit_));
    }
    return over;
  }

  static double TimeOf(const Plan& plan) {
    double time = 0;
    for (const ProgramNode& node : plan.program.nodes) time += EstimatedTime(plan.program, node);
    return time;
  }

  Plan plan_;
  const DeviceSet& devices_;
  const size_t limit_;
  const std::vector<size_t> copies_;
  Plan best_;
  size_t least_ = 0;  // bytes above the limit, of all that were tried
  std::optional<Plan> unplanned_;
};

}  // namespace

void FitMemory(Plan& plan, const DeviceSet& devices, size_t limit) {
  BudgetSearch search(plan, devices, limit);
  if (search.fits()) return;
  const std::vector<size_t> whole = plan.memory.arena_bytes, copies = CopyBytes(plan, devices);
  for (size_t i = 0; i < std::size(kShares) && !search.fits() && (i == 0 || search.is_close()); ++i) {
    search.Try([&](int device) {
      return static_cast<size_t>(kShares[i] * static_cast<double>(limit - std::min(limit, copies[device])));
    });
  }
  double share = 1;
  for (int i = 0; i < kFalls && !search.fits(); ++i) {
    share *= kFall;
    search.Try([&](int device) { return static_cast<size_t>(share * static_cast<double>(whole[device])); });
  }
  plan = search.Take();
  if (plan.recomputation.nodes > 0) plan.recomputation.arena_bytes = whole;
}

}  // namespace belfry
