// Linear regression of one column of a CSV file on the others, with one tower per device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/table/csv.h"
#include "trainers/moments.h"
#include "trainers/program/training_program.h"

namespace belfry::trainers {

struct CsvRegressionOptions {
  std::string path = {};
  uint64_t max_bytes = data::CsvOptions().max_bytes;  // of the file
  std::string target = {};                            // column, as data::FindColumn does; empty: the last
  bool at_most_all = true;                            // false: a batch of more rows than the file has is an error
  double learning_rate = 0.01;
  int64_t steps = 2000, log_every = 100;  // as in TrainerOptions
};

// A column of a file.
struct CsvColumn : Moments {
  std::string name = {};
  Tensor values = {};  // [N] float64
};

// target = sum(weights[i] * features[i]) + bias, in the units of the file.
struct Plane {
  std::vector<double> weights;
  double bias = 0;
  std::string formula;            // lines "y =", "  +3 * a", "  -7", with enough digits to change no prediction
                                  // for a row of the file by more than a millionth of the target's spread
  double mean_squared_error = 0;  // over all rows
  double r2 = 0;                  // coefficient of determination; NaN if the target is the same in all rows
};

// Minimises the mean squared error by gradient descent on standardised features and the target's difference from its
// mean, in shuffled mini-batches.
class CsvRegression final : public TrainingProgram {
 public:
  explicit CsvRegression(CsvRegressionOptions options) : options_(std::move(options)) {}

  absl::Status Configure(ProgramRun& run) override;
  // InvalidArgument for a file without features, a column whose weight could not be a double (its numbers are
  // subnormal, say), or a batch that exceeds the rows; those of ReadCsv.
  absl::Status OpenData(ProgramRun& run) override;
  std::vector<RunSetting> Settings(const ProgramRun& run) const override;
  // FailedPrecondition if the checkpoint has other columns or another number of rows.
  absl::Status Resume(ProgramRun& run) override;
  absl::StatusOr<std::unique_ptr<optim::Optimizer>> MakeOptimizer(const ProgramRun& run) const override;
  absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) const override;
  // Makes the plane, and prints it unless nothing was trained. OutOfRange if its formula is not finite.
  absl::Status Result(const ProgramRun& run, Session& session, const Trainer& trainer) override;

  const Plane& plane() const { return plane_; }

 private:
  const CsvRegressionOptions options_;
  std::vector<CsvColumn> features_;
  CsvColumn target_;
  std::unique_ptr<data::Dataset> dataset_;
  Plane plane_;
};

}  // namespace belfry::trainers
