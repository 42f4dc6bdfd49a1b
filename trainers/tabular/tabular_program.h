// The data, model and results of tabular.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "trainers/loop/model_outputs.h"
#include "trainers/program/schedule_choice.h"
#include "trainers/program/training_program.h"
#include "trainers/tabular/tabular_model.h"

namespace belfry::trainers {

// The rows to predict, and the file to write.
struct TablePrediction {
  std::string rows = {};         // a CSV file; empty: nothing is predicted
  std::string predictions = {};  // PredictionsCsv, written atomically (io::WriteFile)
  TableFormat format = {};
};

struct TabularOptions {
  TabularDataOptions data = {};
  TableModel model = {};
  ScheduleChoice schedule = {.learning_rate = 1e-3};
  double weight_decay = 0.1;
  TablePrediction prediction = {};  // by the model as the run leaves it
};

// A run of tabular, without its flags. Trains by AdamW, with sparse gradients of embeddings.
class TabularProgram : public TrainingProgram {
 public:
  explicit TabularProgram(TabularOptions options = {}) : options_(std::move(options)) {}

  // Also reads the rows to predict, so that a mistake in them ends the run before it begins.
  absl::Status OpenData(ProgramRun& run) override;
  std::vector<RunSetting> Settings(const ProgramRun& run) const override;
  // FailedPrecondition if the checkpoint has other columns, categories or scales of numbers.
  absl::Status Resume(ProgramRun& run) override;
  absl::StatusOr<std::unique_ptr<optim::Optimizer>> MakeOptimizer(const ProgramRun& run) const override;
  absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) const override;
  absl::Status AddEvaluation(ProgramRun& run, const Scope& scope, absl::Span<const data::Field> fields) override;
  std::optional<ExportedModel> Exported() const override;
  std::string Header(const ProgramRun& run, const models::TrainStep& step) const override;
  absl::StatusOr<Evaluation> Evaluate(const ProgramRun& run, Session& session, int64_t step) override;
  absl::Status Result(const ProgramRun& run, Session& session, const Trainer& trainer) override;

  const TableSchema& schema() const { return data_.schema; }
  // The logits of the validation rows in the last evaluation.
  const Tensor& logits() const { return logits_; }

 protected:
  TabularOptions options_;  // to be set before OpenData

 private:
  TabularData data_;
  TableRows to_predict_;
  std::optional<ModelOutputs> outputs_;
  Tensor logits_;
};

// Predicts rows by a checkpoint of tabular, on the first device. Errors: those of TakeSchema, TakeModel, OpenTableRows,
// Restore and io::WriteFile, and of running the model. Returns what was written, for people: "60 rows in out.csv", with
// the figures of the predictions if all rows have the target.
absl::StatusOr<std::string> PredictTable(const TablePrediction& prediction, const io::Checkpoint& checkpoint,
                                         const DeviceSet& devices, const SessionOptions& session, int64_t batch_size);

}  // namespace belfry::trainers
