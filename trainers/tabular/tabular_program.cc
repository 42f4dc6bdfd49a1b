#include "trainers/tabular/tabular_program.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/io/file.h"
#include "framework/runtime/saver.h"
#include "ops/builtin_ops.h"
#include "optim/adam.h"
#include "trainers/loop/step_table.h"

namespace belfry::trainers {
namespace {

// "loss 0.4321, auc 0.8765, accuracy 80.00%"
std::string FiguresText(const Evaluation& figures) {
  const auto metric = [](std::string* out, const Metric& one) { absl::StrAppend(out, MetricText(one)); };
  return absl::StrJoin(figures.metrics, ", ", metric);
}

// Returns what PredictTable does.
absl::StatusOr<std::string> WritePredictions(const TablePrediction& prediction, const TableSchema& schema,
                                             const TableRows& rows, const Tensor& logits) {
  RETURN_IF_ERROR(io::WriteFile(prediction.predictions, PredictionsCsv(schema, logits, prediction.format.separator)));
  const std::string written = absl::StrCat(Counted(rows.examples->size(), "row"), " in ", prediction.predictions);
  if (rows.truth.empty()) return written;
  return absl::StrCat(written, " (", FiguresText(TableFigures(schema, logits, rows.truth)), ")");
}

// The metadata that describe the table and its model.
io::Metadata OfTable(const io::Metadata& metadata) {
  io::Metadata of_table;
  for (const auto& [key, value] : metadata) {
    if (absl::StartsWith(key, "table.") || absl::StartsWith(key, "tabular.")) of_table[key] = value;
  }
  return of_table;
}

std::string TaskText(const TableSchema& schema) {
  const auto classes = static_cast<int64_t>(schema.classes().size());
  if (schema.task == TableTask::kRegression) return "a number";
  return absl::StrCat("one of ", classes, " classes",
                      classes <= 5 ? absl::StrCat(" (", absl::StrJoin(schema.classes(), ", "), ")") : "");
}

}  // namespace

absl::Status TabularProgram::OpenData(ProgramRun& run) {
  ASSIGN_OR_RETURN(data_, OpenTabularData(options_.data));
  if (!options_.prediction.rows.empty()) {
    ASSIGN_OR_RETURN(to_predict_, OpenTableRows(options_.prediction.rows, options_.prediction.format, data_.schema));
  }
  run.train = data_.train.get();
  run.test = data_.validation.get();
  run.training.tasks.data_paths = {options_.data.path, options_.data.validation};
  PutSchema(data_.schema, run.training.metadata);
  PutModel(options_.model, run.training.metadata);
  return absl::OkStatus();
}

std::vector<RunSetting> TabularProgram::Settings(const ProgramRun& run) const {
  return {{"--data", options_.data.path.empty() ? "none" : "a file", /*fixed=*/true},  // whose path may change
          {"--target", data_.schema.target.name, /*fixed=*/true},
          {"--task", std::string(TableTaskName(data_.schema.task)), /*fixed=*/true},
          {"rows", absl::StrCat(run.train->size()), /*fixed=*/true}};
}

absl::Status TabularProgram::Resume(ProgramRun& run) {
  const io::Checkpoint& checkpoint = *run.training.resume.checkpoint;
  if (OfTable(checkpoint.metadata) == OfTable(run.training.metadata)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const TableSchema then, TakeSchema(checkpoint.metadata));
  return absl::FailedPreconditionError(
      absl::StrCat(checkpoint.path, " was trained on other columns, categories or numbers. They were\n",
                   data::ColumnsText(then.features), "and are\n", data::ColumnsText(data_.schema.features),
                   "Use the same data, or another --train_dir"));
}

absl::StatusOr<std::unique_ptr<optim::Optimizer>> TabularProgram::MakeOptimizer(const ProgramRun& run) const {
  ASSIGN_OR_RETURN(const optim::Schedule schedule,
                   MakeSchedule(options_.schedule, options_.schedule.learning_rate, ScheduledOf(run)));
  return std::make_unique<optim::AdamW>(
      optim::AdamWOptions{.learning_rate = schedule, .weight_decay = options_.weight_decay});
}

absl::StatusOr<Output> TabularProgram::Loss(const Scope& tower, const models::Batch& batch) const {
  const Output logits = TableLogits(tower, batch, data_.schema, options_.model, /*training=*/true);
  return TableLoss(tower, logits, batch, data_.schema);
}

absl::Status TabularProgram::AddEvaluation(ProgramRun& run, const Scope& scope, absl::Span<const data::Field>) {
  constexpr int64_t kFewRows = 10;
  if (std::min(run.train->size(), run.test->size()) < kFewRows && run.world.rank() == 0) {
    spdlog::warn("{} for training and {} for evaluation are too few for figures that mean something",
                 Counted(run.train->size(), "row"), run.test->size());
  }
  const auto model = [this](const Scope& at, const models::Batch& batch) -> absl::StatusOr<Output> {
    return TableLogits(at, batch, data_.schema, options_.model, /*training=*/false);
  };
  outputs_.emplace(scope.NameScope("evaluation"), TableFields(data_.schema), model);
  run.training.evaluation_steps = outputs_->Steps(run.test->size(), std::min(run.order.batch_size, run.test->size()));
  return absl::OkStatus();
}

absl::StatusOr<Evaluation> TabularProgram::Evaluate(const ProgramRun& run, Session& session, int64_t step) {
  const int64_t batch_size = std::min(run.order.batch_size, run.test->size());
  ASSIGN_OR_RETURN(logits_, outputs_->Run(session, *run.test, batch_size, &run.world, run.training.tasks.timeout));
  Evaluation figures = TableFigures(data_.schema, logits_, data_.truth);
  RETURN_IF_ERROR(CheckLoss(figures.metrics[0].value, step));
  return figures;
}

std::optional<ExportedModel> TabularProgram::Exported() const {
  if (!outputs_.has_value()) return std::nullopt;
  return ExportedModel{.inputs = InputsOf(outputs_->batch(), "target"), .outputs = {{"logits", outputs_->output()}}};
}

std::string TabularProgram::Header(const ProgramRun& run, const models::TrainStep& step) const {
  std::string text = absl::StrFormat(
      "Model:    %s, hidden layers of %s, %d parameters\nData:     %s for training, %s for evaluation\n",
      options_.model.wide ? "wide and deep" : "perceptron",
      options_.model.hidden.empty() ? "no units" : absl::StrJoin(options_.model.hidden, ", "), CountParameters(step),
      Counted(run.train->size(), "row"), data_.held_out ? Counted(run.test->size(), "row") : std::string("the same"));
  absl::StrAppend(&text, "          the target is ", data_.schema.target.name, ", ", TaskText(data_.schema), "\n");
  if (data_.entropy > 0) {
    absl::StrAppendFormat(&text, "          a generated table, whose target has an entropy of %.4f\n", data_.entropy);
  }
  for (const absl::string_view line :
       absl::StrSplit(data::ColumnsText(data_.schema.features), '\n', absl::SkipEmpty())) {
    absl::StrAppend(&text, "          ", line, "\n");
  }
  return text;
}

absl::Status TabularProgram::Result(const ProgramRun& run, Session& session, const Trainer& trainer) {
  if (trainer.stopped() != 0) return absl::OkStatus();
  const std::string figures = FiguresText(trainer.evaluation());
  const char* const rows = data_.held_out ? "Test" : "Training rows:";
  if (trainer.steps() == 0) {
    absl::PrintF("%s %s. Nothing was trained: --steps=0.\n", rows, figures);
  } else {
    const double rate = trainer.examples_per_second();
    absl::PrintF("%s %s after %s%s.\n", rows, figures, Counted(trainer.steps(), "step"),
                 rate > 0 ? absl::StrFormat(", %.0f rows/s", rate) : "");
  }
  if (to_predict_.examples == nullptr) {
    if (!run.training.quiet) {
      absl::PrintF("Next: --data=FILE.csv --target=COLUMN for a table of your own, --predict=FILE.csv, --help.\n");
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Tensor logits, outputs_->Run(session, *to_predict_.examples, run.order.batch_size));
  ASSIGN_OR_RETURN(const std::string written, WritePredictions(options_.prediction, data_.schema, to_predict_, logits));
  absl::PrintF("Predictions: %s.\n", written);
  return absl::OkStatus();
}

absl::StatusOr<std::string> PredictTable(const TablePrediction& prediction, const io::Checkpoint& checkpoint,
                                         const DeviceSet& devices, const SessionOptions& session_options,
                                         int64_t batch_size) {
  const auto taken = TakeSchema(checkpoint.metadata);
  if (!taken.ok()) return absl::InvalidArgumentError(absl::StrCat(checkpoint.path, ": ", taken.status().message()));
  const TableSchema& schema = *taken;
  ASSIGN_OR_RETURN(const TableModel model, TakeModel(checkpoint.metadata));
  ASSIGN_OR_RETURN(const TableRows rows, OpenTableRows(prediction.rows, prediction.format, schema));
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).Device(devices.device(devices.TowerDevices()[0]).name());
  const ModelOutputs outputs(scope, rows.examples->fields(), [&](const Scope& at, const models::Batch& batch) {
    return absl::StatusOr<Output>(TableLogits(at, batch, schema, model, /*training=*/false));
  });
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, session_options));
  RETURN_IF_ERROR(Restore(*session, checkpoint.path, checkpoint.tensors, {.allow_extra = true}).status());
  ASSIGN_OR_RETURN(const Tensor logits, outputs.Run(*session, *rows.examples, batch_size));
  return WritePredictions(prediction, schema, rows, logits);
}

}  // namespace belfry::trainers
