#include "trainers/callbacks/log_callback.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/layers/metrics.h"

namespace belfry::trainers {
namespace {

double Rate(int64_t count, absl::Duration time) {
  return time > absl::ZeroDuration() ? static_cast<double>(count) / absl::ToDoubleSeconds(time) : 0;
}

}  // namespace

// Metrics share the lines of the metrics file with the other figures. Names of evaluations begin with "test_".
absl::Status LogCallback::CheckMetricNames(const TrainingState& state) const {
  std::set<std::string> names = {"step"};
  const Figures figures = StepFigures(state);
  for (const auto& [name, value] : figures) {
    if (names.insert(name).second && !name.empty() && !absl::StartsWith(name, "test_")) continue;
    std::string node = "unknown";
    for (const models::TrainMetric& metric : state.train_step.towers[0].metrics) {
      if (metric.name != name) continue;
      node = metric.mean.node->name();
      if (metric.mean.node->location().known()) absl::StrAppend(&node, ", ", metric.mean.node->location().ToString());
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "The metric '", name, "' of the collection '", models::kMetrics, "' (node ", node,
        ") has the name of another figure of the metrics file, or one that begins with 'test_'; name its node "
        "otherwise: Scope::Named"));
  }
  return absl::OkStatus();
}

bool LogCallback::Due(int64_t step) const {
  return options_.log_every > 0 && step >= 0 && (step % options_.log_every == 0 || step + 1 == total_);
}

Figures LogCallback::StepFigures(const TrainingState& state) const {
  const StepResults& results = state.results;
  const absl::Duration input = state.times.input - times_.input, step = state.times.step - times_.step,
                       evaluate = state.times.evaluate - times_.evaluate, other = state.times.other - times_.other;
  Figures values = {{"loss", results.loss}};
  for (const Metric& metric : results.metrics) values.emplace_back(metric.name, metric.value);
  values.insert(values.end(), {{"learning_rate", results.learning_rate},
                               {absl::StrCat(options_.unit, "_per_second"),
                                Rate((state.examples - examples_) * options_.units_per_example, input + step + other)},
                               {"seconds_input", absl::ToDoubleSeconds(input)},
                               {"seconds_step", absl::ToDoubleSeconds(step)},
                               {"seconds_evaluate", absl::ToDoubleSeconds(evaluate)},
                               {"seconds_other", absl::ToDoubleSeconds(other)}});
  if (state.train_step.loss_scale.valid()) {
    values.insert(values.end(), {{"loss_scale", results.loss_scale}, {"skipped_steps", results.skipped}});
  }
  return values;
}

// A run that has nothing left to train is evaluated again, and logs that instead of the evaluation before.
absl::Status LogCallback::OnStart(TrainingState& state) {
  RETURN_IF_ERROR(CheckMetricNames(state));
  total_ = state.total;
  const bool only_evaluates = state.steps >= state.total || state.end_reason.has_value();
  const bool evaluated =
      state.resume == nullptr ? state.steps > 0 : !resumed_.evaluation.empty() || state.resume->metric.has_value();
  const bool keep = evaluated && !only_evaluates && !resumed_.unevaluated;
  const bool writes = state.world.rank() == 0;
  ASSIGN_OR_RETURN(log_,
                   RunLog::Open(writes ? options_.metrics_file : "", writes ? options_.directory : "",
                                {.step = state.steps, .evaluated = keep, .logged = !resumed_.unlogged.has_value()},
                                keep ? resumed_.evaluation : Figures()));
  RETURN_IF_ERROR(log_->WriteGraph(state.session));
  if (resumed_.unlogged.has_value()) RETURN_IF_ERROR(log_->Write(state.steps - 1, *resumed_.unlogged));
  logged_ = state.steps - 1;
  if (state.resume != nullptr) {
    evaluation_line_ = std::move(resumed_.evaluation);
    evaluated_ = state.steps;
  }
  return absl::OkStatus();
}

absl::Status LogCallback::OnStep(TrainingState& state) {
  const int64_t step = state.steps - 1;
  if (!state.summaries.empty()) RETURN_IF_ERROR(log_->WriteSummaries(step, options_.summaries, state.summaries));
  if (!Due(step)) return absl::OkStatus();
  RETURN_IF_ERROR(log_->Write(step, StepFigures(state)));
  logged_ = step;
  times_ = state.times;
  examples_ = state.examples;
  return absl::OkStatus();
}

absl::Status LogCallback::OnEvaluation(TrainingState& state) {
  Figures values;
  for (const Metric& metric : state.evaluation.metrics) {
    values.emplace_back(absl::StrCat("test_", metric.name), metric.value);
  }
  RETURN_IF_ERROR(log_->Write(state.steps, values));
  evaluation_line_ = std::move(values);
  evaluated_ = state.steps;
  return absl::OkStatus();
}

void LogCallback::Store(const TrainingState& state, io::Metadata& metadata) const {
  StepRecords records{.unevaluated = state.evaluation_due};
  if (const int64_t step = state.steps - 1; Due(step) && logged_ < step) records.unlogged = StepFigures(state);
  if (evaluated_ == state.steps && !state.evaluation_due) records.evaluation = evaluation_line_;
  records.Store(metadata);
}

}  // namespace belfry::trainers
