// Linear regression of seven fixed points, or of a CSV file.
#include <limits>
#include <string>

#include "absl/flags/flag.h"
#include "framework/base/status.h"
#include "spdlog/fmt/fmt.h"
#include "trainers/csv_regression.h"
#include "trainers/fixed_points.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/program_flags.h"
#include "trainers/flags/run_flags.h"
#include "trainers/flags/world_flags.h"

ABSL_FLAG(std::string, device, "",
          "Device that fits the fixed points, such as /cpu:1. Default: the one that --devices opens.");
ABSL_FLAG(int64_t, log_every, -1,
          "Steps between lines of --metrics_file and, for the fixed points, of the output. -1: 100, and the output has "
          "steps 0, 100, 200, 500, 1000, 2000 and so on.");
ABSL_FLAG(double, learning_rate, 0.01, "Learning rate of gradient descent.");
ABSL_FLAG(std::string, csv, "", "CSV file of numbers to fit instead of the fixed points.");
ABSL_FLAG(int64_t, csv_limit, 1 << 30, "Largest size of --csv in bytes; memory must hold several times as much.");
ABSL_FLAG(std::string, target, "", "Column of --csv to predict, by name or by number from 0. Default: the last one.");

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Fits a line or a plane by gradient descent.

  linear_regression
      100,000 steps on seven fixed points, y = w x + b, on one device. Lines of output show the loss, w and b before
      the update of that step; --log_every=N prints every Nth step. They converge to w = -0.0974930, b = 9.7242340
      with a loss of 15.5821727.
      --metrics_file records step, loss, w and b. These flags do not apply: --batch_size, --batch_size_per_tower,
      --variable_update, --averager, --seed, --target, --summary_every, --check_replicas_every, --trace.

  linear_regression --csv=houses.csv --target=price --devices=cpu:2 --batch_size=64
      Predicts one column of a file from all others, in mini-batches with one tower per device. Features are standardised
      for training (mean 0, deviation 1), and the target is counted from its mean; the formula printed at the end is in
      the units of the file, with as many digits as its predictions need. The default is 2,000 steps. --device does not
      apply.

With --train_dir both save checkpoints, stop cleanly on Ctrl-C, and resume where they stopped.
)";

absl::StatusOr<int> FitFile(World& world, int64_t steps) {
  RETURN_IF_ERROR(CheckFlag("csv_limit", absl::GetFlag(FLAGS_csv_limit), 1, std::numeric_limits<int64_t>::max()));
  RETURN_IF_ERROR(RejectFlags({"device"}, "linear_regression with --csv, which uses --devices"));
  const int64_t log_every = absl::GetFlag(FLAGS_log_every);
  CsvRegression program({.path = absl::GetFlag(FLAGS_csv),
                         .max_bytes = static_cast<uint64_t>(absl::GetFlag(FLAGS_csv_limit)),
                         .target = absl::GetFlag(FLAGS_target),
                         .at_most_all = RejectFlags({"batch_size", "batch_size_per_tower"}, "").ok(),
                         .learning_rate = absl::GetFlag(FLAGS_learning_rate),
                         .steps = steps,
                         .log_every = log_every == -1 ? 100 : log_every});
  return RunTrainingProgram(program, world);
}

// Returns the signal that ended the run, or 0.
absl::StatusOr<int> Run(World& world) {
  if (const int64_t every = absl::GetFlag(FLAGS_log_every); every != -1) {
    RETURN_IF_ERROR(CheckFlag("log_every", every, 1, std::numeric_limits<int64_t>::max()));
  }
  RETURN_IF_ERROR(CheckLearningRate(absl::GetFlag(FLAGS_learning_rate)));
  const bool fixed_points = absl::GetFlag(FLAGS_csv).empty();
  ASSIGN_OR_RETURN(const int64_t steps, Steps(fixed_points ? 100'000 : 2'000));
  if (steps == 0 && world.rank() == 0) fmt::print("Nothing was fitted: --steps=0.\n");
  if (!fixed_points) return FitFile(world, steps);
  RETURN_IF_ERROR(RejectFlags({"batch_size", "batch_size_per_tower", "variable_update", "averager", "seed", "target",
                               "summary_every", "check_replicas_every", "trace"},
                              "linear_regression without --csv"));
  return FitFixedPoints(world, {.steps = steps,
                                .device = absl::GetFlag(FLAGS_device),
                                .learning_rate = absl::GetFlag(FLAGS_learning_rate),
                                .log_every = absl::GetFlag(FLAGS_log_every)});
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  return RunInWorld(argc, argv, kUsage, Run);
}
