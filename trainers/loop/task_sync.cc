#include "trainers/loop/task_sync.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/runtime/saver.h"

namespace belfry::trainers {

TaskSync::TaskSync(World* world, absl::Duration timeout, Session& session, const models::TrainStep& step)
    : alone_(world == nullptr ? World::Alone() : nullptr),
      world_(world == nullptr ? *alone_ : *world),
      timeout_(timeout),
      session_(session),
      step_(step) {}

absl::Time TaskSync::Deadline() const { return SteadyNow() + timeout_; }

absl::Status TaskSync::CheckSame(absl::string_view what, const std::vector<std::string>& lines) const {
  return world_.size() == 1 ? absl::OkStatus() : CheckSameLines(world_, what, lines, Deadline());
}

absl::Status TaskSync::CheckReplicas() const {
  const int first = step_.towers[0].scope.replica();
  RETURN_IF_ERROR(belfry::CheckReplicas(session_, static_cast<int>(step_.towers.size()), first));
  if (world_.size() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ChecksumReplica(session_, first));
  const absl::Status status = CheckSame("variables", lines);
  return absl::IsFailedPrecondition(status) ? absl::DataLossError(status.message()) : status;
}

std::vector<Variable> TaskSync::FirstReplica() const {
  std::vector<Variable> variables;
  for (const Variable& variable : session_.graph().variables()) {
    if (variable.replica() == step_.towers[0].scope.replica() && !variable.sharded()) variables.push_back(variable);
  }
  return variables;
}

absl::Status TaskSync::CopyVariables() const {
  if (world_.size() == 1) return absl::OkStatus();
  return CopyFromTaskZero(world_, session_, FirstReplica(), Deadline());
}

absl::Status TaskSync::CopyMovingAverages() const {
  if (world_.size() == 1) return absl::OkStatus();
  HashSet<const Node*> updated;
  for (const Output& update : session_.graph().GetCollection(kUpdateOps)) {
    if (!update.node->inputs().empty()) updated.insert(update.node->input(0).node);
  }
  std::vector<Variable> moving;
  for (const Variable& variable : FirstReplica()) {
    if (updated.contains(&variable.node())) moving.push_back(variable);
  }
  return CopyFromTaskZero(world_, session_, moving, Deadline());
}

absl::StatusOr<int> TaskSync::AfterStep(int64_t step, int noted, absl::Duration input_time,
                                        absl::Duration step_timeout) {
  const absl::Time deadline = std::min(Deadline(), SteadyNow() + step_timeout);
  return reports_->AfterStep(step, noted, input_time, deadline);
}

absl::Status TaskSync::AgreeOnEnd(std::optional<std::string>& reason) const {
  if (world_.size() == 1) return absl::OkStatus();
  // An empty reason is one, too.
  const std::string mine = reason.has_value() ? absl::StrCat("!", *reason) : "";
  ASSIGN_OR_RETURN(const std::vector<std::string> all, world_.AllGather(mine, Deadline()));
  const auto first = std::find_if(all.begin(), all.end(), [](const std::string& one) { return !one.empty(); });
  if (first != all.end()) reason = first->substr(1);
  return absl::OkStatus();
}

}  // namespace belfry::trainers
