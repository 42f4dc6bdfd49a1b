// A training program of its own: a classifier of the rows of a CSV file by its last column. It shows what a program has
// to state: data, model, header, result and flags. All else is TrainingMain's
// (trainers/flags/program_flags.h).
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/data/in_memory.h"
#include "framework/data/table/csv.h"
#include "models/networks/mlp.h"
#include "optim/adam.h"
#include "trainers/flags/evaluation_flags.h"
#include "trainers/flags/model_flags.h"
#include "trainers/flags/program_flags.h"
#include "trainers/program/classifier_program.h"

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = "Learns the last column of a CSV file: classify_rows --csv=FILE --test_csv=FILE";

// The numbers of a table as "features" [N, F], and its last column as "label".
absl::StatusOr<std::unique_ptr<data::Dataset>> ToExamples(const data::Table& table) {
  const int64_t rows = table.rows(), columns = static_cast<int64_t>(table.columns.size()) - 1;
  Tensor features(DType::kFloat32, {rows, columns});
  for (int64_t i = 0; i < rows * columns; ++i) {
    features.data<float>()[i] = table.values[i % columns].data<float>()[i / columns];
  }
  return data::FromTensors({{"features", features}, {"label", table.values.back()}});
}

class ClassifyRows final : public ClassifierProgram {
 public:
  explicit ClassifyRows(Flags& flags) : flags_(flags), evaluation_(flags) {
    flags.Section("Rows");
    flags.Add("csv", &csv_, "CSV file of numbers, with a class in the last column.");
    flags.Add("test_csv", &test_csv_, "The same, for evaluation.");
    flags.Add("hidden", &hidden_, Range(1, 1 << 20).Fixed(), "Units of the hidden layer.");
    AddLearningRate(flags, learning_rate_);
  }
  ProgramFlags& flags() { return flags_; }

  absl::Status Configure(ProgramRun& run) override {
    RETURN_IF_ERROR(evaluation_.Take(run));
    run.training.steps = flags_.StepsOr(/*default_steps=*/500);
    run.training.unit = "rows";
    run.example = "row";
    return absl::OkStatus();
  }

  absl::Status OpenData(ProgramRun& run) override {
    // "-1" is the last column.
    data::CsvOptions options{.columns = {{.name = "-1", .type = data::ColumnType::kCategory}},
                             .others = data::ColumnType::kFloat};
    ASSIGN_OR_RETURN(const data::Table table, data::ReadCsv(csv_, options));
    options.columns = table.columns;  // the same classes
    ASSIGN_OR_RETURN(const data::Table test, data::ReadCsv(test_csv_, options));
    classes_ = table.columns.back().vocabulary;
    ASSIGN_OR_RETURN(train_, ToExamples(table));
    ASSIGN_OR_RETURN(test_, ToExamples(test));
    run.train = train_.get();
    run.test = test_.get();
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<optim::Optimizer>> MakeOptimizer(const ProgramRun&) const override {
    return std::make_unique<optim::Adam>(optim::AdamOptions{.learning_rate = learning_rate_});
  }

  std::string Header(const ProgramRun& run, const models::TrainStep& step) const override {
    return absl::StrFormat("Model:    %d hidden units, %d parameters\nData:     %d rows of %d classes\n", hidden_,
                           CountParameters(step), run.train->size(), classes_.size() - 1);
  }

  absl::Status Result(const ProgramRun&, Session&, const Trainer& trainer) override {
    if (trainer.stopped() != 0) return absl::OkStatus();
    absl::PrintF("%s\nTest accuracy %.1f%%.\n", ConfusionTable(results_, classes_), 100 * results_.accuracy);
    return absl::OkStatus();
  }

 protected:
  absl::StatusOr<Output> Logits(const Scope& scope, const models::Batch& batch, bool training) const override {
    return models::Mlp(scope, batch["features"],
                       {.hidden = {hidden_}, .classes = static_cast<int64_t>(classes_.size()), .training = training});
  }

 private:
  ProgramFlags flags_;
  EvaluationFlags evaluation_;
  std::string csv_, test_csv_;
  int64_t hidden_ = 16;
  double learning_rate_ = 0.01;
  std::vector<std::string> classes_;  // the first stands for all that the training data lack
  std::unique_ptr<data::Dataset> train_, test_;
};

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags flags;
  ClassifyRows program(flags);
  return TrainingMain(argc, argv, kUsage, program.flags(), program);
}
