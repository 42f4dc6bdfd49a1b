// Linear regression of one column of a CSV file on the others, with one tower per device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/table/csv.h"
#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "models/replicate_towers.h"
#include "trainers/loop/trainer.h"

namespace belfry::trainers {

struct CsvRegressionOptions {
  std::string path = {};
  uint64_t max_bytes = data::CsvOptions().max_bytes;  // of the file
  std::string target = {};                            // column, as data::FindColumn does; empty: the last
  int64_t batch_size = 128;                           // over all towers
  bool at_most_all = true;                            // false: a batch of more rows than the file has is an error
  double learning_rate = 0.01;
  uint64_t seed = 1;  // of the order of rows
  TrainerOptions training = {};
  models::ReplicateOptions replicate = {};
  SessionOptions session = {};
};

// target = sum(weights[i] * features[i]) + bias, in the units of the file.
struct Plane {
  std::string target;
  std::vector<std::string> features;
  std::vector<double> weights;
  double bias = 0;
  double mean_squared_error = 0;  // over all rows
  double r2 = 0;                  // coefficient of determination; NaN if the target is the same in all rows
  std::string formula;            // lines "y =", "  +3 * a", "  -7", with so many digits that they change no prediction
                                  // for a row of the file by more than a millionth of the target's spread
  int64_t steps = 0;              // of training
  int stopped = 0;                // Trainer::stopped; if not 0, the plane is that of an unfinished run
};

// Minimises the mean squared error by gradient descent on standardised features and the target's difference from its
// mean, in shuffled mini-batches. Errors:
// InvalidArgument for a file without features, a column whose weight could not be a double (its numbers are subnormal,
// say), an invalid batch size or one that exceeds the rows; OutOfRange if the formula is not finite; FailedPrecondition
// if the checkpoint to resume from has other columns or another number of rows; those of ReadCsv and Trainer::Run.
absl::StatusOr<Plane> FitCsv(const DeviceSet& devices, const CsvRegressionOptions& options);

}  // namespace belfry::trainers
