// Results of evaluations, and the best of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/io/safetensors.h"

namespace belfry::trainers {

using io::Metric;

// A model's figures on data that it was not trained on. The first metric decides which checkpoint is the best and, with
// TrainerOptions::patience, when the run ends: {.examples = 500, .metrics = {{"loss", 0.25}}} for a regression.
struct Evaluation {
  int64_t examples = 0;
  std::vector<Metric> metrics = {};
  std::string unit = {};  // what `examples` counts, as "tokens"; empty: as the trainer's output
};

// InvalidArgument unless there is a metric, and each has a name that no other has. `who`: "TrainerOptions::evaluate".
absl::Status CheckNames(const Evaluation& evaluation, absl::string_view who);

// "accuracy 45.20%", "top-5 90.00%", "loss 0.2500".
std::string MetricText(const Metric& metric);
// "0.2500"; "3.5e-06" and "1.2e+09", where four decimals would be too few or too many.
std::string ShortNumber(double value);

// The best evaluation of a run so far, by the first metric. Not thread-safe.
class BestEvaluation {
 public:
  // Continues with what Store left in a checkpoint's metadata, if it did.
  void Load(const io::Metadata& metadata);
  void Store(io::Metadata& metadata) const;

  // The first metric of the evaluation after `step` steps, the next one. One of another name than before is the first
  // of its kind; anything is better than NaN.
  void Add(const Metric& metric, int64_t step);
  // Evaluations since the best one; -1: there was none yet.
  int64_t evaluations_since() const { return since_; }
  const Metric& metric() const { return best_; }
  int64_t step() const { return step_; }  // of the best one; -1: unknown

 private:
  Metric best_;
  int64_t since_ = -1, step_ = -1;
};

}  // namespace belfry::trainers
