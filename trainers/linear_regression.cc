// Linear regression of seven fixed points, or of a CSV file.
#include <string>

#include "framework/base/status.h"
#include "spdlog/fmt/fmt.h"
#include "trainers/csv_regression.h"
#include "trainers/fixed_points.h"
#include "trainers/flags/model_flags.h"
#include "trainers/flags/program_flags.h"

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

struct LinearFlags {
  explicit LinearFlags(Flags& flags);

  ProgramFlags program;
  std::string csv = {}, target = {}, device = {};
  int64_t csv_limit = 1 << 30, log_every = -1;
  double learning_rate = 0.01;
};

LinearFlags::LinearFlags(Flags& flags) : program(flags) {
  flags.Section("Regression");
  flags.Add("csv", &csv, Reads(), "CSV file of numbers to fit instead of the fixed points.");
  AddTarget(flags, target);
  AddCsvLimit(flags, csv_limit);
  flags.Add("device", &device,
            "Device that fits the fixed points, such as /cpu:1. Default: the one that --devices opens.");
  AddLearningRate(flags, learning_rate);
  flags.Add("log_every", &log_every, Range(1).Or(-1),
            "Steps between lines of --metrics_file and, for the fixed points, of the output. -1: 100, and the output "
            "has steps 0, 100, 200, 500, 1000, 2000 and so on.");
}

absl::StatusOr<int> FitFile(LinearFlags& flags, World& world, int64_t steps) {
  const Flags& all = flags.program.all;
  RETURN_IF_ERROR(all.Reject({"device"}, "linear_regression with --csv, which uses --devices"));
  CsvRegression program({.path = flags.csv,
                         .max_bytes = static_cast<uint64_t>(flags.csv_limit),
                         .target = flags.target,
                         .at_most_all = !all.IsSet("batch_size") && !all.IsSet("batch_size_per_tower"),
                         .learning_rate = flags.learning_rate,
                         .steps = steps,
                         .log_every = flags.log_every == -1 ? 100 : flags.log_every});
  return RunTrainingProgram(program, flags.program, world);
}

// Returns the signal that ended the run, or 0.
absl::StatusOr<int> Run(LinearFlags& flags, World& world) {
  const int64_t steps = flags.program.StepsOr(flags.csv.empty() ? 100'000 : 2'000);
  if (steps == 0 && world.rank() == 0) fmt::print("Nothing was fitted: --steps=0.\n");
  if (!flags.csv.empty()) return FitFile(flags, world, steps);
  RETURN_IF_ERROR(flags.program.all.Reject({"batch_size", "batch_size_per_tower", "variable_update", "averager", "seed",
                                            "target", "summary_every", "check_replicas_every", "trace"},
                                           "linear_regression without --csv"));
  return FitFixedPoints(
      flags.program, world,
      {.steps = steps, .device = flags.device, .learning_rate = flags.learning_rate, .log_every = flags.log_every});
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags table;
  LinearFlags flags(table);
  return RunInWorld(argc, argv, kUsage, flags.program.device, [&](belfry::World& world) { return Run(flags, world); });
}
