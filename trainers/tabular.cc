// Trains a model of the rows of a CSV file, with a tower or several on each device, and predicts rows of others.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/data/sampler.h"
#include "framework/io/checkpoint_directory.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/evaluation_flags.h"
#include "trainers/flags/program_flags.h"
#include "trainers/flags/run_flags.h"
#include "trainers/flags/session_flags.h"
#include "trainers/flags/world_flags.h"
#include "trainers/loop/run_checkpoints.h"
#include "trainers/tabular/tabular_program.h"

ABSL_FLAG(std::string, data, "", "CSV file of the training rows. Empty: a generated table of customers.");
ABSL_FLAG(std::string, target, "", "Column to predict, by name or by number from 0. Default: the last one.");
ABSL_FLAG(std::string, task, "auto",
          "classification, regression or auto: classes where the target is text, or whole numbers with at most 20 "
          "different values; otherwise a number.");
ABSL_FLAG(std::string, columns, "",
          "Types of columns that are not as they look: zip:category,id:skip. The types are float, integer, category "
          "and skip.");
ABSL_FLAG(std::string, separator, ",", "Character between fields, in all files; tab for a tab.");
ABSL_FLAG(int64_t, csv_limit, 1 << 30, "Largest size of a CSV file in bytes; memory must hold several times as much.");
ABSL_FLAG(int64_t, min_category_count, 2,
          "Categories that fewer training rows have count as unknown, as categories that only later files have: so the "
          "model learns what to think of these.");
ABSL_FLAG(std::string, validation, "", "CSV file of rows for evaluation. Empty: a part of --data, drawn by --seed.");
ABSL_FLAG(double, validation_fraction, 0.1,
          "That part. 0: all rows are trained on, and the figures are those of the same rows.");
ABSL_FLAG(std::string, model, "wide_and_deep",
          "wide_and_deep: a linear model of all columns plus a perceptron (Cheng et al., 2016). mlp: the perceptron "
          "alone.");
ABSL_FLAG(std::vector<std::string>, hidden, (std::vector<std::string>{"64", "32"}),
          "Widths of the perceptron's hidden layers. Empty: none.");
ABSL_FLAG(int64_t, embedding_dim, 0,
          "Width of the embedding of a category; 0: min(600, 1.6 n^0.56) for n categories, as fastai has it.");
ABSL_FLAG(double, dropout, 0, "Rate of dropout after every hidden layer.");
ABSL_FLAG(double, learning_rate, 1e-3, "Learning rate of AdamW.");
ABSL_FLAG(std::string, schedule, "cosine",
          "Learning rate over the steps. cosine: half a cosine, down to 0 at --steps. constant.");
ABSL_FLAG(double, weight_decay, 0.1, "Weight decay of matrices, times the learning rate.");
ABSL_FLAG(std::string, predict, "",
          "CSV file of rows to predict, with the target, for figures, or without it: after training or, without "
          "--data, by the latest "
          "checkpoint in --train_dir (with --restore_best the best one).");
ABSL_FLAG(std::string, predictions, "predictions.csv",
          "CSV file to write for --predict: in each row the target and, for classes, the probability of each.");

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Trains a model of a table, with a tower or several on each device, and predicts rows.

  tabular --devices=cpu:2                              a generated table, whose entropy no model can fall below
  tabular --data=sales.csv --target=price --train_dir=run --devices=cpu:2
  tabular --predict=new.csv --predictions=out.csv --train_dir=run

Columns of numbers are standardised by the training rows. A number that is missing (empty, NA, NaN or null) is replaced
by the mean; if training rows lack some, a further column says where. Columns of text are categories with an embedding
each. Two classes give the area under the ROC curve, numbers RMSE and R2, on the validation rows. The default is 10
passes over the training rows, at least 500 steps, with 10 evaluations. Checkpoints have the columns, categories, means
and deviations, so a prediction needs nothing else.)";

constexpr int64_t kPasses = 10, kFewestSteps = 500, kEvaluations = 10;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

absl::StatusOr<TableFormat> FormatFromFlags() {
  const std::string separator = absl::GetFlag(FLAGS_separator);
  RETURN_IF_ERROR(CheckFlag("csv_limit", absl::GetFlag(FLAGS_csv_limit), 1, kNoLimit));
  if (separator != "tab" && (separator.size() != 1 || separator.find_first_of("\"\r\n ") != separator.npos)) {
    return absl::InvalidArgumentError(absl::StrCat("--separator=", separator, " must be one character, or tab"));
  }
  return TableFormat{.separator = separator == "tab" ? '\t' : separator[0],
                     .max_bytes = static_cast<uint64_t>(absl::GetFlag(FLAGS_csv_limit))};
}

absl::StatusOr<std::vector<int64_t>> HiddenFromFlags() {
  std::vector<int64_t> hidden;
  for (const std::string& text : absl::GetFlag(FLAGS_hidden)) {
    if (text.empty()) continue;
    if (!absl::SimpleAtoi(text, &hidden.emplace_back()) || hidden.back() < 1 || hidden.back() > 1 << 20) {
      return absl::InvalidArgumentError(
          absl::StrCat("--hidden: '", text, "' is no width; expected numbers from 1 to ", 1 << 20, ", such as 64,32"));
    }
  }
  return hidden;
}

absl::StatusOr<TablePrediction> PredictionFromFlags() {
  TablePrediction prediction{.rows = absl::GetFlag(FLAGS_predict), .predictions = absl::GetFlag(FLAGS_predictions)};
  ASSIGN_OR_RETURN(prediction.format, FormatFromFlags());
  if (prediction.rows.empty()) {
    RETURN_IF_ERROR(RejectFlags({"predictions"}, "a run without --predict"));
    return prediction;
  }
  RETURN_IF_ERROR(CheckOutputFile("predictions", prediction.predictions, "the file",
                                  {prediction.rows, absl::GetFlag(FLAGS_data), absl::GetFlag(FLAGS_validation)},
                                  "a file that is read"));
  return prediction;
}

class Tabular final : public TabularProgram {
 public:
  absl::Status CheckFlags() const override;
  absl::Status Configure(ProgramRun& run) override;
  absl::Status OpenData(ProgramRun& run) override;
};

absl::Status Tabular::CheckFlags() const {
  RETURN_IF_ERROR(CheckChoice("task", absl::GetFlag(FLAGS_task), "tasks", {"auto", "classification", "regression"}));
  RETURN_IF_ERROR(CheckChoice("model", absl::GetFlag(FLAGS_model), "models", {"wide_and_deep", "mlp"}));
  RETURN_IF_ERROR(CheckChoice("schedule", absl::GetFlag(FLAGS_schedule), "schedules", {"cosine", "constant"}));
  RETURN_IF_ERROR(CheckFlag("min_category_count", absl::GetFlag(FLAGS_min_category_count), 1, kNoLimit));
  RETURN_IF_ERROR(CheckFlag("embedding_dim", absl::GetFlag(FLAGS_embedding_dim), 0, 1 << 16));
  RETURN_IF_ERROR(CheckBelow1("validation_fraction", absl::GetFlag(FLAGS_validation_fraction)));
  RETURN_IF_ERROR(CheckBelow1("dropout", absl::GetFlag(FLAGS_dropout)));
  RETURN_IF_ERROR(CheckAtLeast0("weight_decay", absl::GetFlag(FLAGS_weight_decay)));
  if (!absl::GetFlag(FLAGS_validation).empty()) {
    RETURN_IF_ERROR(RejectFlags({"validation_fraction"}, "a run with --validation"));
  }
  if (absl::GetFlag(FLAGS_data).empty()) {
    RETURN_IF_ERROR(RejectFlags({"target", "task", "columns", "separator", "validation"}, "a run without --data"));
  }
  return CheckLearningRate(absl::GetFlag(FLAGS_learning_rate));
}

absl::Status Tabular::Configure(ProgramRun& run) {
  RETURN_IF_ERROR(TakeEvaluationFlags(run, /*evaluates_anyway=*/true));
  run.training.unit = "rows";
  ASSIGN_OR_RETURN(options_.prediction, PredictionFromFlags());
  options_.data = {.path = absl::GetFlag(FLAGS_data),
                   .format = options_.prediction.format,
                   .target = absl::GetFlag(FLAGS_target),
                   .task = absl::GetFlag(FLAGS_task),
                   .min_category_count = absl::GetFlag(FLAGS_min_category_count),
                   .validation = absl::GetFlag(FLAGS_validation),
                   .validation_fraction = absl::GetFlag(FLAGS_validation_fraction),
                   .seed = run.order.seed};
  absl::StatusOr<std::vector<data::Column>> columns = data::ParseColumns(absl::GetFlag(FLAGS_columns));
  if (!columns.ok()) return absl::InvalidArgumentError(absl::StrCat("--columns: ", columns.status().message()));
  options_.data.columns = *std::move(columns);
  options_.model.wide = absl::GetFlag(FLAGS_model) == "wide_and_deep";
  ASSIGN_OR_RETURN(options_.model.hidden, HiddenFromFlags());
  options_.model.embedding = absl::GetFlag(FLAGS_embedding_dim);
  options_.model.dropout = absl::GetFlag(FLAGS_dropout);
  options_.learning_rate = absl::GetFlag(FLAGS_learning_rate);
  options_.schedule = absl::GetFlag(FLAGS_schedule);
  options_.weight_decay = absl::GetFlag(FLAGS_weight_decay);
  return absl::OkStatus();
}

absl::Status Tabular::OpenData(ProgramRun& run) {
  RETURN_IF_ERROR(TabularProgram::OpenData(run));
  const int64_t epoch = data::BatchesPerEpoch(run.train->size(), run.order.batch_size, false);
  ASSIGN_OR_RETURN(run.training.steps, Steps(std::max(kPasses * epoch, kFewestSteps)));
  if (run.training.evaluate_every == 0 && run.evaluate_every_epochs == 0) {
    run.training.evaluate_every = epoch * std::max<int64_t>(1, run.training.steps / (kEvaluations * epoch));
  }
  return absl::OkStatus();
}

// Predicts by a checkpoint, in task 0 alone.
absl::Status Predict(World& world) {
  RETURN_IF_ERROR(RejectFlags({"target", "task", "columns", "min_category_count", "validation", "validation_fraction",
                               "model", "hidden", "embedding_dim", "steps"},
                              "a prediction without --data, by the model of a checkpoint"));
  ASSIGN_OR_RETURN(const TablePrediction prediction, PredictionFromFlags());
  const std::string directory = absl::GetFlag(FLAGS_train_dir);
  if (directory.empty()) {
    return absl::InvalidArgumentError("--predict needs --data to train on, or --train_dir, which holds a checkpoint");
  }
  ASSIGN_OR_RETURN(const DeviceSet devices, OpenDevices(world));
  ASSIGN_OR_RETURN(const SessionOptions session, SessionOptionsFromFlags(devices));
  ASSIGN_OR_RETURN(const int64_t batch_size, GlobalBatchSize(static_cast<int>(devices.TowerDevices().size())));
  if (world.rank() != 0) return absl::OkStatus();
  const std::string folder = CheckpointFolder(directory);
  ASSIGN_OR_RETURN(const io::Checkpoint checkpoint,
                   RestoresBest() ? io::LoadBestCheckpoint(folder) : io::LoadLatestCheckpoint(folder));
  ASSIGN_OR_RETURN(const std::string written, PredictTable(prediction, checkpoint, devices, session, batch_size));
  absl::PrintF("Predictions: %s; by %s.\n", written, checkpoint.path);
  return absl::OkStatus();
}

absl::StatusOr<int> Run(World& world) {
  if (!absl::GetFlag(FLAGS_predict).empty() && absl::GetFlag(FLAGS_data).empty()) {
    RETURN_IF_ERROR(Predict(world));
    return 0;
  }
  Tabular program;
  return RunTrainingProgram(program, world);
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  return RunInWorld(argc, argv, kUsage, Run);
}
