// Agreement of the tasks of a run with each other, outside of its steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/collective/world.h"
#include "framework/graph/variable.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"
#include "trainers/loop/tasks.h"

namespace belfry::trainers {

// With one task, the functions that compare and copy do nothing. All tasks must call them at the same point. Errors:
// also those of World::AllGather, Broadcast and Exchange. Not thread-safe.
class TaskSync {
 public:
  // `world` is null for one task. The others are borrowed. `timeout`: for which tasks wait for each other.
  TaskSync(World* world, absl::Duration timeout, Session& session, const models::TrainStep& step);

  World& world() const { return world_; }
  absl::Time Deadline() const;

  // FailedPrecondition unless all tasks have the same lines (CheckSameLines).
  absl::Status CheckSame(absl::string_view what, const std::vector<std::string>& lines) const;
  // DataLoss unless the variables of all towers, also of other tasks, are the same.
  absl::Status CheckReplicas() const;
  // Gives the whole variables, of all towers, their values in task 0.
  absl::Status CopyVariables() const;
  // The same for the moving averages of batch normalisation: unless they are synchronised, they are those of tower 0,
  // and its task evaluates only a part of the data.
  absl::Status CopyMovingAverages() const;

  // From the first step on.
  void StartReports(int64_t step) { reports_ = std::make_unique<TaskReports>(world_, step); }
  // TaskReports::AfterStep. A task that comes later than `step_timeout` would fail the next step, so that none waits
  // longer for it.
  absl::StatusOr<int> AfterStep(int64_t step, int noted, absl::Duration input_time, absl::Duration step_timeout);
  const std::string& slowest() const { return reports_->slowest(); }
  // Sets `reason` to that of the first task that has one.
  absl::Status AgreeOnEnd(std::optional<std::string>& reason) const;

 private:
  std::vector<Variable> FirstReplica() const;

  const std::unique_ptr<World> alone_;  // if the world is null
  World& world_;
  const absl::Duration timeout_;
  Session& session_;
  const models::TrainStep& step_;
  std::unique_ptr<TaskReports> reports_;
};

}  // namespace belfry::trainers
