// The beginning of a run: what must hold, the variables' values, and the outputs.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/data/resume.h"
#include "trainers/loop/run_in_world.h"
#include "trainers/loop/task_sync.h"
#include "trainers/loop/training_loop.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kLookAhead = 1'000'000;  // steps

absl::Status Preparing(absl::string_view what, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("Cannot prepare ", what, ": ", status.message()));
}

// A program may have appended some, which no builder has looked at.
absl::Status CheckMetrics(absl::Span<const models::TrainMetric> metrics) {
  for (const models::TrainMetric& metric : metrics) {
    const Output& x = metric.mean;
    if (x.valid() && x.dtype() == DType::kFloat32 && x.shape() == Shape()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", metric.name, "' of TrainStep::metrics is ",
        x.valid() ? absl::StrCat(DTypeName(x.dtype()), " ", x.shape().ToString(), " (node ", x.node->name(), ")")
                  : "an invalid Output",
        "; expected a float32 scalar"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TrainingLoop::CheckOptions() const {
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
  if (options_.restore_best && (!options_.evaluate || (tasks_.world().rank() == 0 && options_.directory.empty()))) {
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
  if (options_.resume.latest && options_.resume.checkpoint != nullptr) {
    return absl::InvalidArgumentError(
        "ResumeOptions::latest and checkpoint are both set; the latter finds the checkpoint by itself");
  }
  if (options_.resume.latest && options_.directory.empty()) {
    return absl::InvalidArgumentError(
        "ResumeOptions::latest needs TrainerOptions::directory, where the checkpoints are");
  }
  if (options_.steps > 0 && input_.batches_per_epoch() == 1 && input_.last_batch_size() < input_.batch_size() &&
      tasks_.world().rank() == 0) {
    spdlog::warn("the data have {}, fewer than a batch of {}, so each step trains on all of them",
                 Counted(input_.last_batch_size(), "example"), input_.batch_size());
  }
  RETURN_IF_ERROR(others_.Check());
  RETURN_IF_ERROR(CheckMetrics(state_.train_step.metrics));
  for (const AlternateStep& other : options_.alternate_steps) RETURN_IF_ERROR(CheckMetrics(other.step->metrics));
  const int towers = static_cast<int>(state_.train_step.towers.size()) * state_.train_step.micro_batches;
  if (input_.local_towers() == towers) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("The input is split for ", input_.local_towers(),
                                                 " towers, but the model has ", towers,
                                                 "; a Prefetcher splits it for PrefetcherOptions::towers or, in one "
                                                 "task of several, local_towers"));
}

absl::Status TrainingLoop::CheckTasks() const {
  std::vector<std::string> lines = options_.tasks.settings;
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
  add("first step", state_.steps);
  ASSIGN_OR_RETURN(const std::vector<std::string> input, input_.Settings());
  const std::vector<std::string> others = others_.Settings();
  lines.insert(lines.end(), input.begin(), input.end());
  lines.insert(lines.end(), others.begin(), others.end());
  RETURN_IF_ERROR(tasks_.CheckSame("settings", lines));
  std::vector<std::string> models = ModelLines(state_.session.graph(), state_.train_step.towers[0]);
  const std::vector<std::string> more = others_.Models();
  models.insert(models.end(), more.begin(), more.end());
  return tasks_.CheckSame("models", models);
}

// The steps that are done, by the variables.
absl::Status TrainingLoop::ReadSteps() {
  ASSIGN_OR_RETURN(const Tensor steps, state_.session.ReadVariable(state_.train_step.global_step));
  ASSIGN_OR_RETURN(state_.results, steps_.StartResults());
  state_.steps = steps.scalar<int64_t>() + state_.results.skipped;
  RETURN_IF_ERROR(others_.Start(state_.steps, state_.results));
  if (state_.resume != nullptr || options_.steps == 0 || state_.steps < options_.steps) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "Nothing is left to train: the global step is ", state_.steps, ", and TrainerOptions::steps is ", options_.steps,
      ". The global step counts the steps of all TrainSteps in a graph, and was not reset; set steps to ", state_.steps,
      " and as many more as are to be trained"));
}

absl::Status TrainingLoop::StartCallbacks() {
  own_ = make_own_(options_, state_);
  std::vector<Callback*> all;
  for (const auto& callback : own_.first) all.push_back(callback.get());
  all.insert(all.end(), options_.callbacks.begin(), options_.callbacks.end());
  for (const auto& callback : own_.last) all.push_back(callback.get());
  for (Callback* const callback : all) {
    if (state_.resume != nullptr) callback->Load(state_.resume->metadata);
    RETURN_IF_ERROR(callback->OnStart(state_));
    callbacks_.push_back(callback);
  }
  steps_.OnPrepared([this](absl::string_view name, const Plan& plan) {
    for (Callback* const callback : callbacks_) RETURN_IF_ERROR(callback->OnPrepared(state_, name, plan));
    return absl::OkStatus();
  });
  RETURN_IF_ERROR(tasks_.AgreeOnEnd(state_.end_reason));
  ends_ = state_.end_reason.has_value();
  return absl::OkStatus();
}

absl::Status TrainingLoop::FindLatest() {
  state_.resume = options_.resume.checkpoint;
  if (!options_.resume.latest) return absl::OkStatus();
  ASSIGN_OR_RETURN(latest_, FindCheckpoint(options_.directory, tasks_.world(), options_.tasks.timeout));
  if (!latest_.has_value()) return absl::OkStatus();
  state_.resume = &*latest_;
  return input_.Resume(latest_->metadata);
}

absl::Status TrainingLoop::Start() {
  std::string weights;
  RETURN_IF_ERROR(FindLatest());
  if (state_.resume != nullptr) {
    RETURN_IF_ERROR(checkpoints_.Restore(*state_.resume));
    if (!options_.resume.other_data) {
      io::Metadata position;
      input_.PutPosition(input_.position(), position);
      RETURN_IF_ERROR(data::CheckPosition(state_.resume->metadata, position));
    }
    state_.best.Load(state_.resume->metadata);
  } else {
    RETURN_IF_ERROR(checkpoints_.Initialize());
    if (!options_.resume.init_from.empty()) {
      ASSIGN_OR_RETURN(weights, checkpoints_.WarmStart(options_.resume.init_from));
    }
  }
  RETURN_IF_ERROR(ReadSteps());
  next_ = input_.position();
  if (tasks_.world().size() > 1) RETURN_IF_ERROR(CheckTasks());
  // Before the log, since it fails if another run uses the directory.
  RETURN_IF_ERROR(checkpoints_.Open(state_.resume != nullptr, state_.steps, options_.keep_checkpoints));
  tasks_.StartReports(state_.steps);
  RETURN_IF_ERROR(StartCallbacks());
  if (!weights.empty()) state_.print(weights);
  return PrepareSteps();
}

// The training steps that the run comes to, in this order: the shape of the batch, and whether with summaries. One that
// it first comes to after kLookAhead steps may be missing. Of a source with several shapes, all of them, but only one
// of both kinds.
std::vector<std::pair<data::BatchShape, bool>> TrainingLoop::StepsToCome() const {
  std::vector<std::pair<data::BatchShape, bool>> steps;
  if (ends_ || state_.steps >= options_.steps) return steps;
  for (const data::BatchShape& shape : input_.shapes()) {
    steps.emplace_back(shape, steps_.has_summaries() && options_.summary_every == 1);
  }
  const auto unknown = [](const data::Field& field) { return !field.shape.known(); };
  if (std::any_of(input_.fields().begin(), input_.fields().end(), unknown)) return steps;
  const int64_t size = input_.batch_size(), last = input_.last_batch_size(), batches = input_.batches_per_epoch();
  int64_t end = std::min(options_.steps, state_.steps + kLookAhead);
  // From then on they recur.
  end = std::min(end, state_.steps + batches * std::max<int64_t>(options_.summary_every, 1));
  for (int64_t step = state_.steps; step < end; ++step) {
    const int64_t batch = (next_.batch + step - state_.steps) % batches;
    const std::pair<data::BatchShape, bool> coming(batch == batches - 1 ? last : size, WithSummaries(step));
    if (std::find(steps.begin(), steps.end(), coming) == steps.end()) steps.push_back(coming);
  }
  return steps;
}

// Tasks compare their plans, so all must meet the sizes of batches in the same order, as they do in the run.
absl::Status TrainingLoop::PrepareSteps() {
  for (const auto& [shape, with_summaries] : StepsToCome()) {
    const std::string extents =
        shape.extents.empty() ? "" : absl::StrCat(" of extents ", absl::StrJoin(shape.extents, ", "));
    const std::string what = absl::StrCat("the training step for ", Counted(shape.examples, "example"), extents,
                                          with_summaries ? ", with summaries" : "");
    RETURN_IF_ERROR(Preparing(what, steps_.Find(shape, with_summaries).status()));
    RETURN_IF_ERROR(Preparing(what, others_.Prepare(shape)));
  }
  if (!options_.evaluate) return absl::OkStatus();
  for (const PlannedStep& step : options_.evaluation_steps) {
    RETURN_IF_ERROR(
        Preparing(absl::StrCat("the ", step.name), state_.session.Reserve(step.feeds, step.fetches, step.targets)));
  }
  return absl::OkStatus();
}

}  // namespace belfry::trainers
