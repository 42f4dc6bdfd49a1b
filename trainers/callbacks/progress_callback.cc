#include "trainers/callbacks/progress_callback.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/base/units.h"

namespace belfry::trainers {
namespace {

// "2 towers, 62 MiB each", "loss scale 32768", "slowest: task 1 ...".
std::vector<ProgressField> Notes(const TrainingState& state) {
  size_t max = 0;
  for (const models::TrainTower& tower : state.train_step.towers) {
    max = std::max(max, state.session.devices().device(tower.device).counters().bytes_in_use);
  }
  const int towers = state.train_step.towers_in_all;
  const std::string memory = absl::StrFormat("%d MiB", max >> 20);
  std::vector<ProgressField> notes = {{.text = absl::StrCat(Counted(towers, "tower"), ", ", memory),
                                       .shorter = {towers == 1 ? memory : absl::StrCat(towers, " x ", memory)}}};
  if (towers > 1) absl::StrAppend(&notes[0].text, state.train_step.micro_batches > 1 ? " a device" : " each");
  if (state.train_step.loss_scale.valid()) {
    const std::string scale = absl::StrFormat("scale %.9g", state.results.loss_scale);
    notes.push_back({.text = absl::StrCat("loss ", scale), .shorter = {scale}});
  }
  if (const std::string& slowest = state.slowest_task; !slowest.empty()) {
    notes.push_back({.text = slowest, .shorter = {slowest.substr(0, std::min(slowest.find(" ("), slowest.find(',')))}});
  }
  return notes;
}

}  // namespace

absl::Status ProgressCallback::OnStart(TrainingState& state) {
  total_ = state.total;
  progress_.emplace(ProgressOptions{.first = state.steps,
                                    .total = state.total,
                                    .quiet = options_.quiet || state.world.rank() != 0,
                                    .alone = state.world.size() == 1,
                                    .unit = options_.unit});
  if (state.resume == nullptr) return absl::OkStatus();
  const bool done = state.steps == state.total;
  progress_->Print(absl::StrCat("Resuming from ", state.resume->path, ", after step ", state.steps,
                                options_.resume_note.empty() || done ? "" : "\n" + options_.resume_note));
  return absl::OkStatus();
}

absl::Status ProgressCallback::OnStep(TrainingState& state) {
  progress_->LeaveOut(state.times.evaluate - evaluating_);
  evaluating_ = state.times.evaluate;
  progress_->Step((state.examples - examples_) * options_.units_per_example);
  examples_ = state.examples;
  if (!due_) return absl::OkStatus();
  const StepResults& results = state.results;
  progress_->Show(state.steps - 1, results.loss, results.learning_rate, results.metrics, Notes(state));
  return absl::OkStatus();
}

absl::Status ProgressCallback::OnEvaluation(TrainingState& state) {
  const Evaluation& evaluation = state.evaluation;
  const auto add_metric = [](std::string* text, const Metric& metric) { absl::StrAppend(text, MetricText(metric)); };
  progress_->Print(absl::StrFormat("after step %d: test %s on %d %s", state.steps,
                                   absl::StrJoin(evaluation.metrics, ", ", add_metric), evaluation.examples,
                                   evaluation.unit.empty() ? options_.examples : evaluation.unit));
  return absl::OkStatus();
}

absl::Status ProgressCallback::OnEnd(TrainingState&) {
  progress_->Finish();
  return absl::OkStatus();
}

}  // namespace belfry::trainers
