// The beginning of a run: what must hold, the variables' values, and the outputs.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/collective/world.h"
#include "framework/data/resume.h"
#include "framework/runtime/saver.h"
#include "models/metrics.h"
#include "trainers/loop/slot_parts.h"
#include "trainers/loop/tasks.h"
#include "trainers/loop/trainer.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kLookAhead = 1'000'000;  // steps

absl::Status Preparing(absl::string_view what, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("Cannot prepare ", what, ": ", status.message()));
}

}  // namespace

// Metrics share the lines of the metrics file with the trainer's own figures. Names of evaluations begin with "test_".
absl::Status Trainer::CheckMetricNames() const {
  std::set<std::string> names = {"step"};
  const RunLog::Values figures = StepFigures();
  for (const auto& [name, value] : figures) {
    if (names.insert(name).second && !name.empty() && !absl::StartsWith(name, "test_")) continue;
    std::string node = "unknown";
    for (const Output& metric : step_.towers[0].metrics) {
      if (metric.node->name() != absl::StrCat(step_.towers[0].scope.name(), name)) continue;
      node = metric.node->name();
      if (metric.node->location().known()) absl::StrAppend(&node, ", ", metric.node->location().ToString());
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "The metric '", name, "' of the collection '", models::kMetrics, "' (node ", node,
        ") has the name of another figure of the metrics file, or one that begins with 'test_'; name its node "
        "otherwise: Scope::Named"));
  }
  return absl::OkStatus();
}

absl::Status Trainer::CheckOptions() const {
  for (const auto& [name, value] :
       {std::pair("steps", options_.steps), std::pair("log_every", options_.log_every),
        std::pair("evaluate_every", options_.evaluate_every), std::pair("patience", options_.patience),
        std::pair("checkpoint_every", options_.checkpoint_every), std::pair("summary_every", options_.summary_every),
        std::pair("check_replicas_every", options_.check_replicas_every)}) {
    if (value < 0) return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; expected at least 0"));
  }
  if (!options_.evaluate && (options_.evaluate_every > 0 || options_.patience > 0)) {
    return absl::InvalidArgumentError("evaluate_every and patience need TrainerOptions::evaluate, which is not set");
  }
  if (options_.restore_best && (!options_.evaluate || (world_.rank() == 0 && options_.directory.empty()))) {
    return absl::InvalidArgumentError(
        "restore_best needs TrainerOptions::evaluate, which says what is best, and TrainerOptions::directory, which "
        "holds the checkpoints");
  }
  if (options_.unit.empty() && options_.units_per_example != 1) {
    return absl::InvalidArgumentError("units_per_example needs TrainerOptions::unit, the name of what it counts");
  }
  if (options_.units_per_example < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("units_per_example is ", options_.units_per_example, "; expected at least 1"));
  }
  if (options_.steps > 0 && options_.trace.first >= options_.steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("the trace starts at step ", options_.trace.first, ", but the last step is ", options_.steps - 1));
  }
  RETURN_IF_ERROR(CheckMetricNames());
  if (input_.local_towers() == static_cast<int>(step_.towers.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("The input is split for ", input_.local_towers(),
                                                 " towers, but the model has ", step_.towers.size()));
}

// Variables with a value keep it: they were restored, or trained by an earlier run of the session.
absl::Status Trainer::Initialize() {
  ASSIGN_OR_RETURN(const std::vector<Variable> initialized, session_.InitializedVariables());
  HashSet<const Node*> done;
  for (const Variable& variable : initialized) done.insert(&variable.initializer());
  std::vector<const Node*> targets;
  for (const Node* initializer : step_.initialize->control_inputs()) {
    if (!done.contains(initializer)) targets.push_back(initializer);
  }
  return targets.empty() ? absl::OkStatus() : session_.Run({}, {}, targets).status();
}

std::vector<Variable> Trainer::FirstReplica() const {
  std::vector<Variable> variables;
  for (const Variable& variable : session_.graph().variables()) {
    if (variable.replica() == step_.towers[0].scope.replica() && !variable.sharded()) variables.push_back(variable);
  }
  return variables;
}

// Tasks other than 0 may have no access to the file.
absl::Status Trainer::Restore(const io::Checkpoint& checkpoint) {
  if (world_.rank() == 0) {
    RETURN_IF_ERROR(belfry::Restore(session_, checkpoint.path, checkpoint.tensors).status());
  } else {
    RETURN_IF_ERROR(Initialize());
  }
  if (world_.size() == 1) return absl::OkStatus();
  RETURN_IF_ERROR(CopyFromTaskZero(world_, session_, FirstReplica(), TaskDeadline()));
  return DealSlotParts(world_, slot_parts_tag_, session_, checkpoint.tensors, TaskDeadline());
}

// The end of a run whose last evaluation was not its best. All tasks agree on that, since they see the same ones.
absl::Status Trainer::Conclude() {
  if (best_.evaluations_since() <= 0 || best_.step() == steps_) return absl::OkStatus();
  const std::string when = best_.step() < 0 ? "an earlier step" : absl::StrCat("step ", best_.step());
  progress_->Print(absl::StrCat("The best test ", MetricText(best_.metric()), " was that after ", when, "."));
  if (!options_.restore_best) return absl::OkStatus();
  io::Checkpoint best;
  if (world_.rank() == 0) {
    ASSIGN_OR_RETURN(best, io::LoadBestCheckpoint(CheckpointFolder(options_.directory)));
  }
  RETURN_IF_ERROR(Restore(best));
  progress_->Print(absl::StrCat("Its variables are restored from ", best.path, "."));
  ASSIGN_OR_RETURN(evaluation_, options_.evaluate(best_.step()));
  return absl::OkStatus();
}

absl::Status Trainer::CheckInput() const {
  if (options_.other_data) return absl::OkStatus();
  io::Metadata position;
  input_.PutPosition(input_.position(), position);
  return data::CheckPosition(options_.resume->metadata, position);
}

absl::Status Trainer::CheckTasks() {
  if (world_.size() == 1) return absl::OkStatus();
  std::vector<std::string> lines = options_.settings;
  const auto add = [&](absl::string_view name, auto value) { lines.push_back(absl::StrCat(name, "=", value)); };
  add("steps", options_.steps);
  add("log_every", options_.log_every);
  add("evaluate_every", options_.evaluate ? options_.evaluate_every : -1);
  add("patience", options_.patience);
  add("restore_best", options_.restore_best ? 1 : 0);
  add("checkpoint_every", options_.checkpoint_every);
  add("check_replicas_every", options_.check_replicas_every);
  add("batch_size", input_.batch_size());
  add("towers", input_.towers());
  for (const auto& [key, value] : options_.metadata) add(key, value);
  add("first step", steps_);
  ASSIGN_OR_RETURN(const std::vector<std::string> input, input_.Settings());
  lines.insert(lines.end(), input.begin(), input.end());
  RETURN_IF_ERROR(CheckSameLines(world_, "settings", lines, TaskDeadline()));
  return CheckSameLines(world_, "models", ModelLines(session_.graph(), step_.towers[0]), TaskDeadline());
}

absl::Status Trainer::Start() {
  slot_parts_tag_ = world_.NewTag();
  if (options_.resume != nullptr) {
    RETURN_IF_ERROR(Restore(*options_.resume));
    RETURN_IF_ERROR(CheckInput());
    best_.Load(options_.resume->metadata);
  } else {
    RETURN_IF_ERROR(Initialize());
  }
  ASSIGN_OR_RETURN(const Tensor steps, session_.ReadVariable(step_.global_step));
  steps_ = steps.scalar<int64_t>();
  if (scales_loss()) {
    ASSIGN_OR_RETURN(const Tensor skipped, session_.ReadVariable(step_.skipped_steps));
    skipped_ = skipped.scalar<int64_t>();
    steps_ += skipped_;
  }
  if (options_.resume == nullptr && options_.steps > 0 && steps_ >= options_.steps) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Nothing is left to train: the global step is ", steps_, ", and TrainerOptions::steps is ", options_.steps,
        ". The global step counts the steps of all TrainSteps in a graph, and was not reset; set steps to ", steps_,
        " and as many more as are to be trained"));
  }
  scale_step_ = steps_;
  next_ = input_.position();
  RETURN_IF_ERROR(CheckTasks());
  // Tasks other than 0 need no directory, but may have to hand over their parts of slots.
  ASSIGN_OR_RETURN(const std::string saves,
                   world_.Broadcast(options_.directory.empty() ? "" : "saves", TaskDeadline()));
  saves_ = !saves.empty();
  reports_ = std::make_unique<TaskReports>(world_, steps_);
  const bool writes = world_.rank() == 0;
  progress_.emplace(ProgressOptions{.first = steps_,
                                    .total = options_.steps,
                                    .quiet = options_.quiet || !writes,
                                    .alone = world_.size() == 1,
                                    .unit = unit_});
  // Before the log, since it fails if another run uses the directory.
  if (writes && !options_.directory.empty()) RETURN_IF_ERROR(OpenCheckpoints());
  RETURN_IF_ERROR(OpenLog());
  RETURN_IF_ERROR(log_->WriteGraph(session_));
  if (writes && options_.trace.first >= 0) tracer_.emplace(session_.devices(), options_.trace);
  if (options_.resume != nullptr) {
    saved_ = steps_;
    progress_->Print(absl::StrCat("Resuming from ", options_.resume->path, ", after step ", steps_,
                                  options_.resume_note.empty() || last() ? "" : "\n" + options_.resume_note));
  }
  return PrepareSteps();
}

// The training steps that the run comes to, in this order: the number of examples, and whether with summaries. One that
// it first comes to after kLookAhead steps may be missing.
std::vector<std::pair<int64_t, bool>> Trainer::StepsToCome() const {
  std::vector<std::pair<int64_t, bool>> steps;
  if (out_of_patience()) return steps;
  const int64_t size = input_.batch_size(), last = input_.last_batch_size(), batches = input_.batches_per_epoch();
  int64_t end = std::min(options_.steps, steps_ + kLookAhead);
  end = std::min(end, steps_ + batches * std::max<int64_t>(options_.summary_every, 1));  // from then on they recur
  for (int64_t step = steps_; step < end; ++step) {
    const int64_t batch = (next_.batch + step - steps_) % batches;
    const std::pair<int64_t, bool> coming(batch == batches - 1 ? last : size, WithSummaries(step));
    if (std::find(steps.begin(), steps.end(), coming) == steps.end()) steps.push_back(coming);
  }
  return steps;
}

// Tasks compare their plans, so all must meet the sizes of batches in the same order, as they do in the run.
absl::Status Trainer::PrepareSteps() {
  for (const auto& [examples, with_summaries] : StepsToCome()) {
    const std::string what =
        absl::StrCat("the training step for ", Counted(examples, "example"), with_summaries ? ", with summaries" : "");
    RETURN_IF_ERROR(Preparing(what, StepFor(examples, with_summaries).status()));
  }
  if (!options_.evaluate) return absl::OkStatus();
  for (const PlannedStep& step : options_.evaluation_steps) {
    RETURN_IF_ERROR(
        Preparing(absl::StrCat("the ", step.name), session_.Reserve(step.feeds, step.fetches, step.targets)));
  }
  return absl::OkStatus();
}

// A run that has nothing left to train is evaluated again, and logs that instead of the evaluation before.
absl::Status Trainer::OpenLog() {
  const bool only_evaluates = steps_ >= options_.steps || out_of_patience();
  const auto records = options_.resume == nullptr ? StepRecords() : StepRecords::Load(options_.resume->metadata);
  const bool evaluated =
      options_.resume == nullptr ? steps_ > 0 : !records.evaluation.empty() || options_.resume->metric.has_value();
  const bool keep = evaluated && !only_evaluates && !records.unevaluated;
  const bool writes = world_.rank() == 0;
  ASSIGN_OR_RETURN(log_, RunLog::Open(writes ? options_.metrics_file : "", writes ? options_.directory : "",
                                      {.step = steps_, .evaluated = keep, .logged = !records.unlogged.has_value()},
                                      keep ? records.evaluation : RunLog::Values()));
  return absl::OkStatus();
}

absl::Status Trainer::OpenCheckpoints() {
  const std::string path = CheckpointFolder(options_.directory);
  ASSIGN_OR_RETURN(io::CheckpointDirectory folder,
                   io::CheckpointDirectory::Open(path, {.keep_latest = options_.keep_checkpoints}));
  ASSIGN_OR_RETURN(const std::vector<io::CheckpointFile> there, io::ListCheckpoints(path));
  if (options_.resume == nullptr && !there.empty() && there.back().step > steps_) {
    return absl::FailedPreconditionError(
        absl::StrCat(there.back().path, " belongs to another run, which this one, starting at step ", steps_,
                     ", would overwrite; resume it (TrainerOptions::resume) or use another directory"));
  }
  ASSIGN_OR_RETURN(checkpointer_, Checkpointer::Create(session_, std::move(folder)));
  return absl::OkStatus();
}

}  // namespace belfry::trainers
