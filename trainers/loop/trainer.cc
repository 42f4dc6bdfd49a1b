#include "trainers/loop/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/base/units.h"
#include "framework/collective/world.h"
#include "framework/runtime/saver.h"
#include "trainers/loop/slot_parts.h"
#include "trainers/loop/tasks.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kMaxSkipped = 100;  // steps in a row

// Ends a phase of the loop: adds its time to `sum` and starts the next one.
void EndPhase(absl::Time& start, absl::Duration& sum) {
  const absl::Time now = SteadyNow();
  sum += now - start;
  start = now;
}

double Rate(int64_t examples, absl::Duration time) {
  return time > absl::ZeroDuration() ? static_cast<double>(examples) / absl::ToDoubleSeconds(time) : 0;
}

}  // namespace

absl::Status CheckLoss(double loss, int64_t step) {
  if (std::isfinite(loss)) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("Model diverged with loss = ", loss, " at step ", step, "; try a smaller learning rate"));
}

std::string CheckpointFolder(const std::string& directory) {
  return (std::filesystem::path(directory) / "checkpoints").string();
}

Trainer::Trainer(Session& session, const models::TrainStep& step, data::BatchSource& input, TrainerOptions options)
    : alone_(options.world == nullptr ? World::Alone() : nullptr),
      world_(options.world == nullptr ? *alone_ : *options.world),
      session_(session),
      step_(step),
      input_(input),
      options_(std::move(options)),
      unit_(options_.unit.empty() ? "examples" : options_.unit),
      examples_name_(options_.units_per_example == 1 ? unit_ : "examples"),
      metrics_(step.metrics.size()) {
  world_.SetPosition([this] { return Position(); });
}

// Here and not in the header, where every program would compile the members' destructors.
Trainer::~Trainer() {
  // The error is told, and the roll called, after this.
  world_.SetPosition(failed_ ? [step = steps_] { return absl::StrCat("step ", step, ": has ended with an error"); }
                             : std::function<std::string()>());
}

absl::Time Trainer::TaskDeadline() const { return SteadyNow() + options_.task_timeout; }

void Trainer::Enter(Part part) {
  part_step_.store(steps_, std::memory_order_relaxed);
  part_since_.store(absl::ToUnixNanos(SteadyNow()), std::memory_order_relaxed);
  part_.store(part, std::memory_order_relaxed);
  if (part == Part::kStep) running_.store(nullptr, std::memory_order_release);  // until it is compiled
}

std::string Trainer::Position() const {
  const Part part = part_.load(std::memory_order_relaxed);
  const absl::Duration time = SteadyNow() - absl::FromUnixNanos(part_since_.load(std::memory_order_relaxed));
  const std::string when = absl::StrCat("step ", part_step_.load(std::memory_order_relaxed));
  const std::string since = absl::StrCat(" for ", absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1))));
  switch (part) {
    case Part::kStarting: return "has been starting";
    case Part::kReading: return absl::StrCat(when, ": has been reading the next batch", since);
    case Part::kEvaluating: return absl::StrCat(when, ": has been evaluating", since);
    case Part::kOther: return absl::StrCat(when, ": has been between two steps", since);
    case Part::kStep: break;
  }
  const PreparedStep* const running = running_.load(std::memory_order_acquire);
  if (running == nullptr) return absl::StrCat(when, ": has been compiling it", since);
  return absl::StrCat(when, ":\n    ", absl::StrReplaceAll(running->Position(), {{"\n", "\n  "}, {"  /", "/"}}));
}

absl::Status Trainer::CheckReplicas() {
  const int first = step_.towers[0].scope.replica();
  RETURN_IF_ERROR(belfry::CheckReplicas(session_, static_cast<int>(step_.towers.size()), first));
  if (world_.size() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ChecksumReplica(session_, first));
  const absl::Status status = CheckSameLines(world_, "variables", lines, TaskDeadline());
  return absl::IsFailedPrecondition(status) ? absl::DataLossError(status.message()) : status;
}

// Unless they are synchronised, the moving averages of batch normalisation are those of tower 0, and its task evaluates
// only a part of the data.
absl::Status Trainer::CopyMovingAverages() {
  if (world_.size() == 1) return absl::OkStatus();
  HashSet<const Node*> updated;
  for (const Output& update : session_.graph().GetCollection(kUpdateOps)) {
    if (!update.node->inputs().empty()) updated.insert(update.node->input(0).node);
  }
  std::vector<Variable> moving;
  for (const Variable& variable : FirstReplica()) {
    if (updated.contains(&variable.node())) moving.push_back(variable);
  }
  return CopyFromTaskZero(world_, session_, moving, TaskDeadline());
}

bool Trainer::WithSummaries(int64_t step) const {
  if (!log_->has_events() || options_.summaries.empty() || options_.summary_every == 0) return false;
  const bool traced = tracer_.has_value() && tracer_->in_range(step);  // traced steps must have the same plan
  return step % options_.summary_every == 0 && !traced;
}

absl::StatusOr<PreparedStep*> Trainer::StepFor(int64_t examples, bool with_summaries) {
  Prepared& known = prepared_[examples];
  std::unique_ptr<PreparedStep>& prepared = with_summaries ? known.with_summaries : known.plain;
  if (prepared == nullptr) {
    const std::vector<FeedSpec> feeds = TrainingSteps(step_, examples, examples, {})[0].feeds;
    std::vector<Output> fetches = {step_.loss, step_.learning_rate};
    for (const models::TrainMetric& metric : step_.metrics) fetches.push_back(metric.mean);
    if (scales_loss()) fetches.insert(fetches.end(), {step_.loss_scale, step_.skipped_steps});
    if (with_summaries) fetches.insert(fetches.end(), options_.summaries.begin(), options_.summaries.end());
    ASSIGN_OR_RETURN(prepared, session_.Prepare(feeds, fetches, {step_.update}));
    if (world_.size() > 1) {
      const std::vector<std::string> lines = CollectiveLines(prepared->plan());
      // Task 0 alone may write summaries, so only the first plan for a batch is compared among all.
      if (known.collectives.empty()) {
        RETURN_IF_ERROR(CheckSameLines(world_, "models", lines, TaskDeadline()));
        known.collectives = lines;
      } else if (lines != known.collectives) {
        return absl::InternalError("a step with summaries runs other collectives than one without");
      }
    }
  }
  return prepared.get();
}

absl::Status Trainer::RunStep(PreparedStep& step) {
  running_.store(&step, std::memory_order_release);
  if (tracer_.has_value() && tracer_->Wants(steps_, step)) return tracer_->Run(steps_, step, feeds_);
  return step.Run(feeds_);
}

absl::Status Trainer::ReadResults(PreparedStep& step, bool with_summaries) {
  RETURN_IF_ERROR(step.Wait());
  loss_ = step.fetched(0).scalar<float>();
  learning_rate_ = step.fetched(1).scalar<float>();
  RETURN_IF_ERROR(CheckLoss(loss_, steps_));
  int first = 2;
  for (double& metric : metrics_) metric = step.fetched(first++).scalar<float>();
  if (scales_loss()) {
    RETURN_IF_ERROR(ReadLossScale(step.fetched(first).scalar<float>(), step.fetched(first + 1).scalar<int64_t>()));
    first += 2;
  }
  if (!with_summaries) return absl::OkStatus();
  std::vector<Tensor> values;
  for (size_t i = 0; i < options_.summaries.size(); ++i) values.push_back(step.fetched(first + static_cast<int>(i)));
  return log_->WriteSummaries(steps_, options_.summaries, values);
}

// The run is given up after kMaxSkipped steps in a row: a scale that is fixed or at its minimum will not recover.
absl::Status Trainer::ReadLossScale(double scale, int64_t skipped) {
  loss_scale_ = scale;
  skipped_in_row_ = skipped - skipped_ == steps_ - scale_step_ ? skipped_in_row_ + skipped - skipped_ : 0;
  skipped_ = skipped;
  scale_step_ = steps_;
  if (skipped_in_row_ < kMaxSkipped) return absl::OkStatus();
  return absl::AbortedError(absl::StrFormat(
      "Model diverged: at step %d the last %d steps were skipped, because their gradients overflow even "
      "with a loss scale of %.9g; try a smaller learning rate or another dtype",
      steps_, skipped_in_row_, loss_scale_));
}

// A Prefetcher's towers are right; a BatchSource of the user's may divide its batches in another way.
absl::Status Trainer::CheckSplit(const data::Batch& batch) const {
  for (size_t i = 0; i < batch.towers().size(); ++i) {
    const int tower = step_.first_tower + static_cast<int>(i);
    const int64_t expected = data::RangeOfTower(batch.examples(), input_.towers(), tower).count;
    if (batch.towers()[i].count == expected) continue;
    return absl::InvalidArgumentError(absl::StrCat("The input gave tower ", tower, " of ", input_.towers(), " ",
                                                   Counted(batch.towers()[i].count, "example"), " of a batch of ",
                                                   batch.examples(), ", but ",
                                                   "data::RangeOfTower, by which batches are split, says ", expected));
  }
  return absl::OkStatus();
}

absl::Status Trainer::Train(const data::Batch& batch) {
  RETURN_IF_ERROR(CheckSplit(batch));
  const bool with_summaries = WithSummaries(steps_);
  ASSIGN_OR_RETURN(PreparedStep* const step, StepFor(batch.examples(), with_summaries));
  feeds_.clear();
  for (const data::TowerBatch& tower : batch.towers()) {
    feeds_.insert(feeds_.end(), tower.fields.begin(), tower.fields.end());
  }
  consistent_ = false;
  RETURN_IF_ERROR(RunStep(*step));
  last_step_ = step;
  const bool ends = steps_ + 1 == options_.steps;
  shown_ = ends || progress_->Due();
  const bool logged = shown_ || with_summaries || Due(options_.log_every);
  return logged || !step->asynchronous() ? ReadResults(*step, with_summaries) : absl::OkStatus();
}

absl::Status Trainer::Evaluate() {
  const absl::Time begin = SteadyNow();
  progress_->Pause();
  Enter(Part::kEvaluating);
  RETURN_IF_ERROR(WaitForLastStep());
  RETURN_IF_ERROR(CopyMovingAverages());
  ASSIGN_OR_RETURN(evaluation_, options_.evaluate(steps_));
  RETURN_IF_ERROR(CheckNames(evaluation_));
  RunLog::Values values;
  for (const Metric& metric : evaluation_.metrics)
    values.emplace_back(absl::StrCat("test_", metric.name), metric.value);
  const Metric& first = evaluation_.metrics[0];
  RETURN_IF_ERROR(log_->Write(steps_, values));
  if (best_.evaluations_since() >= 0 && best_.metric().name != first.name) {
    progress_->Print(
        absl::StrCat("The best checkpoint goes by ", first.name, " from here on, not ", best_.metric().name, "."));
  }
  metric_ = first;
  best_.Add(first, steps_);
  evaluation_line_ = std::move(values);
  evaluated_ = steps_;
  evaluation_due_ = false;
  progress_->Print(absl::StrFormat(
      "after step %d: test %s on %d %s", steps_,
      absl::StrJoin(evaluation_.metrics, ", ",
                    [](std::string* text, const Metric& metric) { absl::StrAppend(text, MetricText(metric)); }),
      evaluation_.examples, evaluation_.unit.empty() ? examples_name_ : evaluation_.unit));
  progress_->Resume();
  if (tracer_.has_value() && tracer_->in_range(steps_)) tracer_->AddHostSpan("evaluate", begin, SteadyNow());
  return absl::OkStatus();
}

absl::Status Trainer::Save() {
  if (!saves_ || saved_ == steps_) return absl::OkStatus();
  const absl::Time begin = SteadyNow();
  RETURN_IF_ERROR(WaitForLastStep());
  ASSIGN_OR_RETURN(const std::vector<SlotPart> elsewhere,
                   GatherSlotParts(world_, slot_parts_tag_, session_, TaskDeadline()));
  if (checkpointer_ == nullptr) return absl::OkStatus();
  io::Metadata metadata = options_.metadata;
  input_.PutPosition(next_, metadata);
  best_.Store(metadata);
  StepRecords records{.unevaluated = evaluation_due_, .evaluation = evaluation_line_};
  if (log_due_) records.unlogged = StepFigures();
  records.Store(metadata);
  RETURN_IF_ERROR(checkpointer_->Save(steps_, std::move(metadata), metric_, elsewhere));
  saved_ = steps_;
  if (tracer_.has_value() && tracer_->in_range(steps_)) tracer_->AddHostSpan("save", begin, SteadyNow());
  return absl::OkStatus();
}

absl::Status Trainer::FinishTrace() {
  ASSIGN_OR_RETURN(const std::string text, tracer_->Finish());
  tracer_.reset();
  progress_->Print(text);
  return absl::OkStatus();
}

// "2 towers, 62 MiB each", "loss scale 32768", "slowest: task 1 ...".
std::vector<ProgressField> Trainer::Notes() const {
  size_t max = 0;
  for (const models::TrainTower& tower : step_.towers) {
    max = std::max(max, session_.devices().device(tower.device).counters().bytes_in_use);
  }
  const int towers = input_.towers();
  const std::string memory = absl::StrFormat("%d MiB", max >> 20);
  std::vector<ProgressField> notes = {{.text = absl::StrCat(Counted(towers, "tower"), ", ", memory),
                                       .shorter = {towers == 1 ? memory : absl::StrCat(towers, " x ", memory)}}};
  if (towers > 1) absl::StrAppend(&notes[0].text, " each");
  if (scales_loss()) {
    const std::string scale = absl::StrFormat("scale %.9g", loss_scale_);
    notes.push_back({.text = absl::StrCat("loss ", scale), .shorter = {scale}});
  }
  if (const std::string& slowest = reports_->slowest(); !slowest.empty()) {
    notes.push_back({.text = slowest, .shorter = {slowest.substr(0, std::min(slowest.find(" ("), slowest.find(',')))}});
  }
  return notes;
}

// The cross-entropy, ...
std::vector<Metric> Trainer::LossParts() const {
  std::vector<Metric> parts;
  for (size_t i = 0; i < metrics_.size(); ++i) parts.push_back({step_.metrics[i].name, metrics_[i]});
  return parts;
}

// A line of the metrics file about the steps since the last one, without the step.
Figures Trainer::StepFigures() const {
  RunLog::Values values = {{"loss", loss_}};
  for (size_t i = 0; i < metrics_.size(); ++i) values.emplace_back(step_.metrics[i].name, metrics_[i]);
  values.insert(values.end(), {{"learning_rate", learning_rate_},
                               {absl::StrCat(unit_, "_per_second"),
                                Rate(examples_ * options_.units_per_example, input_time_ + step_time_ + other_time_)},
                               {"seconds_input", absl::ToDoubleSeconds(input_time_)},
                               {"seconds_step", absl::ToDoubleSeconds(step_time_)},
                               {"seconds_evaluate", absl::ToDoubleSeconds(evaluate_time_)},
                               {"seconds_other", absl::ToDoubleSeconds(other_time_)}});
  if (scales_loss()) values.insert(values.end(), {{"loss_scale", loss_scale_}, {"skipped_steps", skipped_}});
  return values;
}

absl::Status Trainer::Log(int64_t step) {
  EndPhase(phase_start_, other_time_);
  RETURN_IF_ERROR(log_->Write(step, StepFigures()));
  log_due_ = false;
  input_time_ = step_time_ = evaluate_time_ = other_time_ = absl::ZeroDuration();
  examples_ = 0;
  return absl::OkStatus();
}

// Must not fail: from here on an error saves a checkpoint that says what is missing.
void Trainer::ExpectRecords() {
  log_due_ = options_.log_every > 0 && ((steps_ - 1) % options_.log_every == 0 || last());
  evaluation_due_ = options_.evaluate && (Due(options_.evaluate_every) || last());
  evaluation_line_.clear();
  metric_.reset();
}

// The records that an error kept an interrupted run from writing about the step that it saved, which is then saved as
// that run would have.
absl::Status Trainer::MakeUpRecords() {
  if (options_.resume == nullptr) return absl::OkStatus();
  const StepRecords records = StepRecords::Load(options_.resume->metadata);
  evaluation_line_ = records.evaluation;
  metric_ = options_.resume->metric;
  if (records.unlogged.has_value()) RETURN_IF_ERROR(log_->Write(steps_ - 1, *records.unlogged));
  const bool evaluates = records.unevaluated && options_.evaluate;
  if (evaluates) RETURN_IF_ERROR(Evaluate());
  if (!records.unlogged.has_value() && !evaluates) return absl::OkStatus();
  saved_ = -1;
  return Save();
}

// Logging, checks, evaluation and checkpoint after a step, which steps_ already counts.
absl::Status Trainer::AfterStep(int64_t examples) {
  if (checkpointer_ != nullptr) RETURN_IF_ERROR(checkpointer_->Poll());
  progress_->Step(examples * options_.units_per_example);
  examples_ += examples;
  const int64_t step = steps_ - 1;
  if (shown_) progress_->Show(step, loss_, learning_rate_, LossParts(), Notes());
  if (log_due_) RETURN_IF_ERROR(Log(step));
  if (tracer_.has_value() && step >= options_.trace.last) RETURN_IF_ERROR(FinishTrace());
  if (Due(options_.check_replicas_every)) {
    consistent_ = false;
    RETURN_IF_ERROR(WaitForLastStep());
    RETURN_IF_ERROR(CheckReplicas());
    consistent_ = true;
  }
  EndPhase(phase_start_, other_time_);
  if (evaluation_due_) {
    RETURN_IF_ERROR(Evaluate());
    EndPhase(phase_start_, evaluate_time_);
  }
  if (options_.stop || world_.size() > 1) {
    // A task that comes later than that would fail the next step.
    const absl::Time deadline = std::min(TaskDeadline(), SteadyNow() + options_.step_timeout);
    ASSIGN_OR_RETURN(stopped_,
                     reports_->AfterStep(steps_, options_.stop ? options_.stop() : 0, all_input_time_, deadline));
  }
  const bool save = metric_.has_value() || Due(options_.checkpoint_every) || last() || stopped_ != 0;
  return save ? Save() : absl::OkStatus();
}

absl::Status Trainer::Loop() {
  phase_start_ = SteadyNow();
  while (steps_ < options_.steps && stopped_ == 0 && !out_of_patience()) {
    int64_t examples;
    {
      EndPhase(phase_start_, other_time_);
      const absl::Time begin = SteadyNow();
      const absl::Duration before = input_time_;
      Enter(Part::kReading);
      ASSIGN_OR_RETURN(const data::Batch batch, input_.Next());
      Enter(Part::kStep);
      EndPhase(phase_start_, input_time_);
      all_input_time_ += input_time_ - before;
      if (tracer_.has_value() && tracer_->in_range(steps_)) tracer_->AddHostSpan("next batch", begin, SteadyNow());
      examples = batch.examples();
      RETURN_IF_ERROR(Train(batch));
      next_ = batch.next();
    }
    Enter(Part::kOther);
    EndPhase(phase_start_, step_time_);
    ++steps_;
    ExpectRecords();
    consistent_ = true;
    RETURN_IF_ERROR(AfterStep(examples));
  }
  if (out_of_patience() && !last()) {
    progress_->Print(absl::StrFormat("Stopped after step %d: nothing better in %s.", steps_,
                                     Counted(best_.evaluations_since(), "evaluation")));
  }
  return absl::OkStatus();
}

// The error with the checkpoint to resume from: on a line of its own if the error has several.
absl::Status Trainer::WithLastCheckpoint(const absl::Status& status) {
  if (checkpointer_ == nullptr) return status;
  const absl::Status written = checkpointer_->Finish();
  const std::string folder = checkpointer_->folder();
  std::string text(absl::StripTrailingAsciiWhitespace(status.message()));
  const absl::string_view separator = absl::StrContains(text, '\n') ? "\n" : "; ";
  if (!written.ok()) absl::StrAppend(&text, separator, "saving a checkpoint failed: ", written.message());
  const absl::StatusOr<io::Checkpoint> good = io::LoadLatestCheckpoint(folder);
  absl::StrAppend(&text, separator,
                  good.ok() ? absl::StrCat("the last good checkpoint is ", good->path)
                            : absl::StrCat("there is no checkpoint in ", folder));
  return absl::Status(status.code(), text);
}

absl::Status Trainer::StartAndLoop() {
  RETURN_IF_ERROR(CheckOptions());
  RETURN_IF_ERROR(Start());
  const int64_t first = steps_;
  if (options_.steps > 0 && first >= options_.steps) {
    progress_->Print(absl::StrCat("Nothing is left to train: ", first, " of ", options_.steps, " steps are done."));
  }
  absl::Status status = CatchOutOfMemory("training", [this] {
    RETURN_IF_ERROR(MakeUpRecords());
    return Loop();
  });
  if (status.ok() && options_.evaluate && steps_ == first && evaluated_ != steps_ && stopped_ == 0) status = Evaluate();
  if (status.ok() && tracer_.has_value()) status = FinishTrace();
  progress_->Finish();
  examples_per_second_ = progress_->per_second() / static_cast<double>(options_.units_per_example);
  failed_ = !status.ok();
  // The other tasks go on, so parts of slots that they hold cannot be had.
  const bool whole = world_.size() == 1 || !HasSlotParts(session_);
  if (!status.ok() && consistent_ && whole) status.Update(Save());
  if (!status.ok()) return WithLastCheckpoint(status);
  if (checkpointer_ != nullptr) RETURN_IF_ERROR(checkpointer_->Finish());
  return runs_out() ? Conclude() : absl::OkStatus();
}

}  // namespace belfry::trainers
