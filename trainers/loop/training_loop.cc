#include "trainers/loop/training_loop.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "trainers/callbacks/step_records.h"

namespace belfry::trainers {

namespace {

std::vector<const Node*> Initializers(const models::TrainStep& step, absl::Span<const AlternateStep> others) {
  std::vector<const Node*> nodes = {step.initialize};
  for (const AlternateStep& other : others) {
    if (other.step != nullptr) nodes.push_back(other.step->initialize);
  }
  return nodes;
}

}  // namespace

TrainingLoop::TrainingLoop(Session& session, const models::TrainStep& step, data::BatchSource& input,
                           TrainerOptions options, MakeOwnCallbacks make_own)
    : options_(std::move(options)),
      make_own_(make_own),
      input_(input),
      tasks_(options_.world, options_.tasks.timeout, session, step),
      // Task 0 alone has an event file.
      steps_(session, step, tasks_,
             tasks_.world().rank() == 0 && !options_.directory.empty() && options_.summary_every > 0
                 ? options_.summaries
                 : std::vector<Output>()),
      others_(session, step, options_.alternate_steps, tasks_),
      checkpoints_(session, Initializers(step, options_.alternate_steps), tasks_, options_.directory),
      state_{.session = session, .world = tasks_.world(), .train_step = step} {
  state_.total = options_.steps;
  state_.print = [this](absl::string_view text) {
    for (Callback* const callback : callbacks_) callback->OnMessage(text);
  };
  tasks_.world().SetPosition([this] { return timer_.Position(); });
}

// Here and not in the header, where every program would compile the members' destructors.
TrainingLoop::~TrainingLoop() {
  const bool failed = !timer_.starting() && !state_.status.ok();
  // The error is told, and the roll called, after this.
  tasks_.world().SetPosition(
      failed ? [step = state_.steps] { return absl::StrCat("step ", step, ": has ended with an error"); }
             : std::function<std::string()>());
}

absl::Status TrainingLoop::Notify(absl::Status (Callback::*event)(TrainingState&)) {
  state_.times = timer_.times();
  for (Callback* const callback : callbacks_) RETURN_IF_ERROR((callback->*event)(state_));
  return absl::OkStatus();
}

absl::Status TrainingLoop::WaitForLastStep() {
  RETURN_IF_ERROR(steps_.Wait());
  return others_.Wait();
}

bool TrainingLoop::WantsTrace(int64_t step) const {
  return std::any_of(callbacks_.begin(), callbacks_.end(), [&](Callback* one) { return one->WantsTrace(step); });
}

bool TrainingLoop::WithSummaries(int64_t step) const {
  // Traced steps must have the same plan.
  return steps_.has_summaries() && step % options_.summary_every == 0 && !WantsTrace(step);
}

absl::Status TrainingLoop::Loop() {
  timer_.Restart();
  while (state_.steps < options_.steps && state_.stopped == 0 && !ends_) {
    state_.input_began = timer_.Enter(LoopTimer::Phase::kReading, state_.steps);
    ASSIGN_OR_RETURN(data::Batch batch, input_.Next());
    RETURN_IF_ERROR(RunStep(std::move(batch)));
    RETURN_IF_ERROR(Record());
    if (state_.evaluation_due) RETURN_IF_ERROR(Evaluate());
    RETURN_IF_ERROR(AgreeOnEnd());
    const bool ends_here = ends_ && state_.stopped == 0;
    if (ends_here && options_.evaluate && evaluated_ != state_.steps) RETURN_IF_ERROR(Evaluate());
    const bool evaluated = evaluated_ == state_.steps;
    if (evaluated || Due(options_.checkpoint_every) || last() || state_.stopped != 0 || ends_) RETURN_IF_ERROR(Save());
  }
  if (ends_ && !last()) state_.Print(absl::StrCat("Stopped after step ", state_.steps, ": ", *state_.end_reason, "."));
  return absl::OkStatus();
}

absl::Status TrainingLoop::RunStep(data::Batch batch) {
  const int64_t number = state_.steps;
  state_.began = timer_.Enter(LoopTimer::Phase::kStep, number);
  const bool traced = WantsTrace(number), with_summaries = WithSummaries(number);
  bool read = with_summaries;
  for (Callback* const callback : callbacks_) read |= callback->WantsResults(number);
  ASSIGN_OR_RETURN(const absl::Span<const Tensor> feeds, steps_.Feeds(batch));
  ASSIGN_OR_RETURN(PreparedStep* const step, steps_.Find(steps_.ShapeOf(batch), with_summaries));
  consistent_ = false;
  timer_.SetRunning(*step);
  absl::Status ran = steps_.RunSeries(batch);
  if (traced) {
    trace_ = StepTrace();
    state_.trace = &trace_;
  }
  if (ran.ok()) ran = traced ? step->RunTraced(feeds, trace_) : step->Run(feeds);
  // A kernel knows the row of a label in its tower only.
  if (absl::IsInvalidArgument(ran)) {
    const std::string fault = steps_.FaultOf(batch);
    if (!fault.empty()) return absl::InvalidArgumentError(absl::StrCat(ran.message(), "; ", fault));
  }
  RETURN_IF_ERROR(ran);
  state_.prepared = step;
  if (read || !step->asynchronous()) {
    RETURN_IF_ERROR(steps_.Read(*step, number, batch, state_.results, with_summaries ? &state_.summaries : nullptr));
  }
  const auto running = [&](const PreparedStep& other) { timer_.SetRunning(other); };
  RETURN_IF_ERROR(others_.Run(batch, number, read, running, state_.results));
  next_ = batch.next();
  for (Callback* const callback : callbacks_) callback->OnBatch(batch);
  state_.examples += batch.examples();
  batch.Release();
  state_.ended = timer_.Enter(LoopTimer::Phase::kOther, number);
  // Must not fail: from here on an error saves a checkpoint, of which callbacks say what is missing. Summaries cannot
  // be made up, so they are written before that.
  ++state_.steps;
  state_.evaluation_due = options_.evaluate && (Due(options_.evaluate_every) || last());
  consistent_ = !with_summaries;
  return absl::OkStatus();
}

// After a step, which state_.steps already counts. The log, of own_.first, writes the summaries.
absl::Status TrainingLoop::Record() {
  RETURN_IF_ERROR(checkpoints_.Poll());
  if (checkpoints_.writing()) RETURN_IF_ERROR(RecordWritten());
  state_.times = timer_.times();
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    if (i == own_.first.size()) consistent_ = true;
    RETURN_IF_ERROR(callbacks_[i]->OnStep(state_));
  }
  timer_.CountStep(state_.examples);
  consistent_ = true;
  state_.summaries.clear();
  state_.trace = nullptr;
  if (!Due(options_.check_replicas_every)) return absl::OkStatus();
  consistent_ = false;
  RETURN_IF_ERROR(WaitForLastStep());
  RETURN_IF_ERROR(tasks_.CheckReplicas());
  consistent_ = true;
  return absl::OkStatus();
}

absl::Status TrainingLoop::Evaluate() {
  state_.began = timer_.Enter(LoopTimer::Phase::kEvaluating, state_.steps);
  RETURN_IF_ERROR(WaitForLastStep());
  RETURN_IF_ERROR(tasks_.CopyMovingAverages());
  ASSIGN_OR_RETURN(state_.evaluation, options_.evaluate(state_.steps));
  RETURN_IF_ERROR(CheckNames(state_.evaluation, "TrainerOptions::evaluate"));
  state_.ended = SteadyNow();
  const Metric& first = state_.evaluation.metrics[0];
  const bool another = state_.best.evaluations_since() >= 0 && state_.best.metric().name != first.name;
  if (another) {
    state_.Print(absl::StrCat("The best checkpoint goes by ", first.name, " from here on, not ",
                              state_.best.metric().name, "."));
  }
  // If a callback fails, the run that resumes evaluates again.
  BestEvaluation before = state_.best;
  absl::Cleanup undo = [&] { std::swap(state_.best, before); };
  state_.best.Add(first, state_.steps);
  RETURN_IF_ERROR(Notify(&Callback::OnEvaluation));
  std::move(undo).Cancel();
  evaluated_ = state_.steps;
  state_.evaluation_due = false;
  timer_.Enter(LoopTimer::Phase::kOther, state_.steps);
  RETURN_IF_ERROR(tasks_.AgreeOnEnd(state_.end_reason));
  ends_ = state_.end_reason.has_value();
  return absl::OkStatus();
}

// After a step: about signals, and about callbacks that ask to end.
absl::Status TrainingLoop::AgreeOnEnd() {
  int noted = options_.stop ? options_.stop() : 0;
  if (noted == 0 && state_.end_reason.has_value() && !ends_) noted = TaskReports::kEnd;
  ASSIGN_OR_RETURN(const int shared,
                   tasks_.AfterStep(state_.steps, noted, timer_.times().input, options_.tasks.step_timeout));
  state_.slowest_task = tasks_.slowest();
  if (shared != TaskReports::kEnd) {
    state_.stopped = shared;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(tasks_.AgreeOnEnd(state_.end_reason));
  ends_ = state_.end_reason.has_value();
  return absl::OkStatus();
}

absl::Status TrainingLoop::RecordWritten() {
  state_.written = checkpoints_.TakeWritten();
  return state_.written.empty() ? absl::OkStatus() : Notify(&Callback::OnWritten);
}

// `alone`: after an error of this task, while the others go on.
absl::Status TrainingLoop::Save(bool alone) {
  if (!checkpoints_.IsMissing(state_.steps)) return absl::OkStatus();
  state_.began = SteadyNow();
  RETURN_IF_ERROR(WaitForLastStep());
  const auto metadata = [&] {
    io::Metadata all = options_.metadata;
    input_.PutPosition(next_, all);
    state_.best.Store(all);
    for (Callback* const callback : callbacks_) callback->Store(state_, all);
    return all;
  };
  std::optional<Metric> metric;
  if (evaluated_ == state_.steps) metric = state_.evaluation.metrics[0];
  state_.times = timer_.times();
  // An error of the checkpoint before, or of a callback, does not keep this one from being saved.
  absl::Status before = checkpoints_.Finish();
  before.Update(RecordWritten());
  for (Callback* const callback : callbacks_) before.Update(callback->BeforeSave(state_, alone));
  ASSIGN_OR_RETURN(state_.checkpoint, checkpoints_.Save(state_.steps, metadata, metric));
  RETURN_IF_ERROR(before);
  state_.ended = SteadyNow();
  return Notify(&Callback::OnSave);
}

absl::Status TrainingLoop::Run() {
  RETURN_IF_ERROR(CheckOptions());
  callbacks_.clear();
  state_.end_reason.reset();
  ends_ = false;
  consistent_ = false;
  // After an error, too, a checkpoint is saved, and callbacks are told of the end.
  const auto part = [](absl::FunctionRef<absl::Status()> body) { return CatchOutOfMemory("training", body); };
  bool started = false;
  state_.status = part([&] {
    RETURN_IF_ERROR(Start());
    started = true;
    return Train();
  });
  if (started) state_.status = part([&] { return Finish(state_.status); });
  return part([&] {
    for (Callback* const callback : callbacks_) state_.status.Update(callback->OnEnd(state_));
    return state_.status;
  });
}

absl::Status TrainingLoop::Train() {
  const int64_t first = state_.steps;
  if (options_.steps > 0 && first >= options_.steps) {
    state_.Print(absl::StrCat("Nothing is left to train: ", first, " of ", options_.steps, " steps are done."));
  }
  RETURN_IF_ERROR(MakeUp());
  RETURN_IF_ERROR(Loop());
  const bool untrained = state_.steps == first && evaluated_ != first && state_.stopped == 0;
  return options_.evaluate && untrained ? Evaluate() : absl::OkStatus();
}

// The records that an error kept an interrupted run from writing about the step that it saved, which is then saved as
// that run would have. LogCallback has written the line by now.
absl::Status TrainingLoop::MakeUp() {
  if (state_.resume == nullptr) return absl::OkStatus();
  const StepRecords records = StepRecords::Load(state_.resume->metadata);
  const bool evaluates = records.unevaluated && options_.evaluate;
  if (evaluates) RETURN_IF_ERROR(Evaluate());
  if (!records.unlogged.has_value() && !evaluates) return absl::OkStatus();
  checkpoints_.Forget();
  return Save();
}

absl::Status TrainingLoop::Finish(absl::Status status) {
  const bool corrupted = state_.session.corrupted();
  if (corrupted) {
    status =
        absl::Status(status.code(), absl::StrCat("In step ", state_.steps, ", which is not saved: ", status.message()));
  }
  // The other tasks go on, so that parts of slots that they hold cannot be had.
  if (!status.ok() && !corrupted && consistent_ && checkpoints_.whole()) status.Update(Save(/*alone=*/true));
  if (!status.ok()) return checkpoints_.WithLastCheckpoint(status);
  RETURN_IF_ERROR(checkpoints_.Finish());
  RETURN_IF_ERROR(RecordWritten());
  const bool to_its_end = state_.stopped == 0 && (state_.steps >= options_.steps || ends_);
  return to_its_end ? Conclude() : absl::OkStatus();
}

// The end of a run whose last evaluation was not its best. All tasks agree on that, since they see the same ones.
absl::Status TrainingLoop::Conclude() {
  const BestEvaluation& best = state_.best;
  if (best.evaluations_since() <= 0 || best.step() == state_.steps) return absl::OkStatus();
  const std::string when = best.step() < 0 ? "an earlier step" : absl::StrCat("step ", best.step());
  state_.Print(absl::StrCat("The best test ", MetricText(best.metric()), " was that after ", when, "."));
  if (!options_.restore_best) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string path, checkpoints_.RestoreBest());
  state_.Print(absl::StrCat("Its variables are restored from ", path, "."));
  ASSIGN_OR_RETURN(state_.evaluation, options_.evaluate(best.step()));
  return absl::OkStatus();
}

}  // namespace belfry::trainers
