// Trains a model of the rows of a CSV file, with a tower or several on each device, and predicts rows of others.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/data/sampler.h"
#include "framework/io/checkpoint_directory.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/evaluation_flags.h"
#include "trainers/flags/model_flags.h"
#include "trainers/flags/program_flags.h"
#include "trainers/loop/run_directory.h"
#include "trainers/tabular/tabular_program.h"

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

class Tabular final : public TabularProgram {
 public:
  explicit Tabular(Flags& flags);
  ProgramFlags& flags() { return flags_; }

  absl::Status CheckFlags() const override;
  absl::Status Configure(ProgramRun& run) override;
  absl::Status OpenData(ProgramRun& run) override;

  // True for a prediction by a checkpoint, without training.
  bool only_predicts() const { return !predict_.empty() && options_.data.path.empty(); }
  // That prediction, in task 0.
  absl::Status Predict(World& world);

 private:
  void AddTable(Flags& flags);
  void AddNetwork(Flags& flags);
  absl::Status TakeHidden();
  absl::Status TakePrediction();

  ProgramFlags flags_;
  EvaluationFlags evaluation_;
  std::string separator_ = ",", columns_ = {}, model_ = "wide_and_deep";
  int64_t csv_limit_ = 1 << 30;
  std::vector<std::string> hidden_ = {"64", "32"}, predict_ = {};
};

Tabular::Tabular(Flags& flags) : flags_(flags), evaluation_(flags) {
  options_.prediction.predictions = "predictions.csv";
  AddTable(flags);
  AddNetwork(flags);
}

void Tabular::AddTable(Flags& flags) {
  TabularDataOptions& data = options_.data;
  flags.Section("Table");
  flags.Add("data", &data.path, Reads(), "CSV file of the training rows. Empty: a generated table of customers.");
  AddTarget(flags, data.target);
  flags.Add("task", &data.task, OneOf("tasks", {"auto", "classification", "regression"}),
            "classification, regression or auto: classes where the target is text, or whole numbers with at most 20 "
            "different values; otherwise a number.");
  flags.Add("columns", &columns_,
            "Types of columns that are not as they look: zip:category,id:skip. The types are float, integer, category "
            "and skip.");
  flags.Add("separator", &separator_, "Character between fields, in all files; tab for a tab.");
  AddCsvLimit(flags, csv_limit_);
  flags.Add("min_category_count", &data.min_category_count, Range(1),
            "Categories that fewer training rows have count as unknown, as categories that only later files have: so "
            "the model learns what to think of these.");
  flags.Add("validation", &data.validation, Reads(),
            "CSV file of rows for evaluation. Empty: a part of --data, drawn by --seed.");
  AddValidationFraction(flags, data.validation_fraction, Below1());
  AddPredict(flags, predict_,
             "CSV file of rows to predict, with the target, for figures, or without it: after training or, without "
             "--data, by the latest checkpoint in --train_dir (with --restore_best the best one).");
  flags.Add("predictions", &options_.prediction.predictions, Writes("predict"),
            "CSV file to write for --predict: in each row the target and, for classes, the probability of each.");
}

void Tabular::AddNetwork(Flags& flags) {
  flags.Section("Model and optimizer (AdamW)");
  AddModel(flags, model_, OneOf("models", {"wide_and_deep", "mlp"}).Fixed(),
           "wide_and_deep: a linear model of all columns plus a perceptron (Cheng et al., 2016). mlp: the perceptron "
           "alone.");
  flags.Add("hidden", &hidden_, Fixed(), "Widths of the perceptron's hidden layers. Empty: none.");
  flags.Add("embedding_dim", &options_.model.embedding, Range(0, 1 << 16).Fixed(),
            "Width of the embedding of a category; 0: min(600, 1.6 n^0.56) for n categories, as fastai has it.");
  AddDropout(flags, options_.model.dropout);
  AddSchedule(flags, options_.schedule);
  AddWeightDecay(flags, options_.weight_decay);
}

absl::Status Tabular::TakeHidden() {
  options_.model.hidden.clear();
  for (const std::string& text : hidden_) {
    int64_t width = 0;
    if (text.empty()) continue;
    if (!absl::SimpleAtoi(text, &width) || width < 1 || width > 1 << 20) {
      return absl::InvalidArgumentError(
          absl::StrCat("--hidden: '", text, "' is no width; expected numbers from 1 to ", 1 << 20, ", such as 64,32"));
    }
    options_.model.hidden.push_back(width);
  }
  return absl::OkStatus();
}

absl::Status Tabular::TakePrediction() {
  if (separator_ != "tab" && (separator_.size() != 1 || separator_.find_first_of("\"\r\n ") != separator_.npos)) {
    return absl::InvalidArgumentError(absl::StrCat("--separator=", separator_, " must be one character, or tab"));
  }
  TablePrediction& prediction = options_.prediction;
  prediction.format = {.separator = separator_ == "tab" ? '\t' : separator_[0],
                       .max_bytes = static_cast<uint64_t>(csv_limit_)};
  if (predict_.empty()) return flags_.all.Reject({"predictions"}, "a run without --predict");
  if (predict_.size() > 1) return absl::InvalidArgumentError("--predict names several files; expected one");
  prediction.rows = predict_[0];
  return CheckOutputFile("predictions", prediction.predictions, "the file");
}

absl::Status Tabular::CheckFlags() const {
  if (!options_.data.validation.empty()) {
    RETURN_IF_ERROR(flags_.all.Reject({"validation_fraction"}, "a run with --validation"));
  }
  if (!options_.data.path.empty()) return absl::OkStatus();
  return flags_.all.Reject({"target", "task", "columns", "separator", "validation"}, "a run without --data");
}

absl::Status Tabular::Configure(ProgramRun& run) {
  RETURN_IF_ERROR(evaluation_.Take(run, /*evaluates_anyway=*/true));
  run.training.unit = "rows";
  RETURN_IF_ERROR(TakePrediction());
  options_.data.format = options_.prediction.format;
  options_.data.seed = run.order.seed;
  absl::StatusOr<std::vector<data::Column>> columns = data::ParseColumns(columns_);
  if (!columns.ok()) return absl::InvalidArgumentError(absl::StrCat("--columns: ", columns.status().message()));
  options_.data.columns = *std::move(columns);
  options_.model.wide = model_ == "wide_and_deep";
  return TakeHidden();
}

absl::Status Tabular::OpenData(ProgramRun& run) {
  RETURN_IF_ERROR(TabularProgram::OpenData(run));
  const int64_t epoch = data::BatchesPerEpoch(run.train->size(), run.order.batch_size, false);
  run.training.steps = flags_.StepsOr(std::max(kPasses * epoch, kFewestSteps));
  if (run.training.evaluate_every == 0 && run.evaluate_every_epochs == 0) {
    run.training.evaluate_every = epoch * std::max<int64_t>(1, run.training.steps / (kEvaluations * epoch));
  }
  return absl::OkStatus();
}

absl::Status Tabular::Predict(World& world) {
  RETURN_IF_ERROR(flags_.all.Reject({"target", "task", "columns", "min_category_count", "validation",
                                     "validation_fraction", "model", "hidden", "embedding_dim", "steps"},
                                    "a prediction without --data, by the model of a checkpoint"));
  RETURN_IF_ERROR(TakePrediction());
  const std::string& directory = flags_.training.directory;
  if (directory.empty()) {
    return absl::InvalidArgumentError("--predict needs --data to train on, or --train_dir, which holds a checkpoint");
  }
  ASSIGN_OR_RETURN(const DeviceSet devices, flags_.session.OpenDevices(world));
  ASSIGN_OR_RETURN(const SessionOptions session, flags_.session.OptionsFor(devices));
  ASSIGN_OR_RETURN(const int64_t batch_size, flags_.GlobalBatchSize(static_cast<int>(devices.TowerDevices().size())));
  if (world.rank() != 0) return absl::OkStatus();
  const std::string folder = CheckpointFolder(directory);
  ASSIGN_OR_RETURN(const io::Checkpoint checkpoint,
                   evaluation_.restore_best ? io::LoadBestCheckpoint(folder) : io::LoadLatestCheckpoint(folder));
  ASSIGN_OR_RETURN(const std::string written,
                   PredictTable(options_.prediction, checkpoint, devices, session, batch_size));
  absl::PrintF("Predictions: %s; by %s.\n", written, checkpoint.path);
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags flags;
  Tabular program(flags);
  return RunInWorld(argc, argv, kUsage, program.flags().device, [&](belfry::World& world) -> absl::StatusOr<int> {
    if (!program.only_predicts()) return RunTrainingProgram(program, program.flags(), world);
    RETURN_IF_ERROR(program.Predict(world));
    return 0;
  });
}
