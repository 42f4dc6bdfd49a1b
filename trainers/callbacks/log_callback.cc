#include "trainers/callbacks/log_callback.h"

#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/graph/graph_proto.h"
#include "models/layers/metrics.h"
#include "ops/summary.h"

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
    std::string node;
    for (const models::TrainMetric& metric : state.train_step.towers[0].metrics) {
      if (metric.name != name) continue;
      node = metric.mean.node->name();
      if (metric.mean.node->location().known()) absl::StrAppend(&node, ", ", metric.mean.node->location().ToString());
    }
    const bool appended = node.empty();
    return absl::InvalidArgumentError(absl::StrCat(
        "The metric '", name, "' of ",
        appended ? "TrainStep::metrics" : absl::StrCat("the collection '", models::kMetrics, "' (node ", node, ")"),
        " has the name of another figure of the metrics file, or one that begins with 'test_'; ",
        appended ? "give it another" : "add it under another name: models::AddMetric"));
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

absl::Status LogCallback::Open(const RunStart& start, const Figures& evaluation, Session& session) {
  const std::string& directory = options_.directory;
  const auto folder = [](const std::filesystem::path& file) { return file.lexically_normal().parent_path(); };
  const bool in_directory =
      !directory.empty() && folder(options_.metrics_file) == folder(std::filesystem::path(directory) / "file");
  ASSIGN_OR_RETURN(metrics_, MetricsWriter::Open(options_.metrics_file,
                                                 in_directory ? std::optional<RunStart>(start) : std::nullopt));
  if (directory.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(events_, io::SummaryWriter::Open(directory));
  // Checkpoints of older versions have no figures to write again.
  const bool keeps_evaluation = start.evaluated && evaluation.empty();
  RETURN_IF_ERROR(events_->WriteStart(start.step + (keeps_evaluation ? 1 : 0)));
  RETURN_IF_ERROR(WriteEvent(start.step, evaluation));
  // The graph as the session placed it.
  return events_->WriteGraph(GraphToProto(session.graph(), [&](const Node& node) {
    const absl::StatusOr<const Device*> device = session.DeviceOf(node);
    return device.ok() ? (*device)->name().ToString() : "";
  }));
}

absl::Status LogCallback::Write(int64_t step, const Figures& figures) {
  std::vector<std::pair<absl::string_view, double>> line = {{"step", static_cast<double>(step)}};
  line.insert(line.end(), figures.begin(), figures.end());
  RETURN_IF_ERROR(metrics_.Write(line));
  return WriteEvent(step, figures);
}

absl::Status LogCallback::WriteEvent(int64_t step, const Figures& figures) {
  if (events_ == nullptr) return absl::OkStatus();
  io::Summary summary;
  for (const auto& [name, value] : figures) summary.AddScalar(absl::StrCat("run/", name), value);
  return events_->Write(step, summary);
}

// A run that has nothing left to train is evaluated again, and logs that instead of the evaluation before.
absl::Status LogCallback::OnStart(TrainingState& state) {
  RETURN_IF_ERROR(CheckMetricNames(state));
  total_ = state.total;
  const bool only_evaluates = state.steps >= state.total || state.end_reason.has_value();
  const bool evaluated =
      state.resume == nullptr ? state.steps > 0 : !resumed_.evaluation.empty() || state.resume->metric.has_value();
  const bool keep = evaluated && !only_evaluates && !resumed_.unevaluated;
  if (state.world.rank() == 0) {
    RETURN_IF_ERROR(Open({.step = state.steps, .evaluated = keep, .logged = !resumed_.unlogged.has_value()},
                         keep ? resumed_.evaluation : Figures(), state.session));
  }
  if (resumed_.unlogged.has_value()) RETURN_IF_ERROR(Write(state.steps - 1, *resumed_.unlogged));
  logged_ = state.steps - 1;
  if (state.resume != nullptr) {
    evaluation_line_ = std::move(resumed_.evaluation);
    evaluated_ = state.steps;
  }
  return absl::OkStatus();
}

absl::Status LogCallback::OnStep(TrainingState& state) {
  const int64_t step = state.steps - 1;
  if (!state.summaries.empty() && events_ != nullptr) {
    ASSIGN_OR_RETURN(const ops::FetchedSummaries fetched, ops::ReadSummaries(options_.summaries, state.summaries));
    RETURN_IF_ERROR(events_->Write(step, fetched.summary));
  }
  if (!Due(step)) return absl::OkStatus();
  RETURN_IF_ERROR(Write(step, StepFigures(state)));
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
  RETURN_IF_ERROR(Write(state.steps, values));
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
