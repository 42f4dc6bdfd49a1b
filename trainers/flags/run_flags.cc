#include "trainers/flags/run_flags.h"

#include <filesystem>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "trainers/callbacks/metrics.h"
#include "trainers/flags/command_line.h"

ABSL_FLAG(int64_t, steps, -1, "Number of training steps; -1: the program's default.");
ABSL_FLAG(int64_t, batch_size, 128,
          "Examples per step over all towers, so that the result does not depend on the number of devices, up to "
          "rounding.");
ABSL_FLAG(int64_t, batch_size_per_tower, 0,
          "Examples per step in each tower, instead of --batch_size: the global batch grows with the number of "
          "devices.");
ABSL_FLAG(uint64_t, seed, 1, "Seed of the initial values, the order of examples, augmentation and dropout.");

ABSL_FLAG(absl::Duration, max_run_time, absl::InfiniteDuration(),
          "Time after which the training saves and ends with status 142, such as 3h50m or 45s, so that a batch system "
          "can start it again; inf: no limit.");

ABSL_FLAG(std::string, train_dir, "",
          "Directory for what the run writes: metrics.jsonl and, if the program has them, checkpoints, TensorBoard "
          "event files and traces. Created if missing.");
ABSL_FLAG(std::string, metrics_file, "",
          "File to append metrics to, one JSON object per line. Training: step, loss, parts of it such as "
          "cross_entropy, learning_rate, images_per_second (or what the program counts) and, with a loss scale, "
          "loss_scale and skipped_steps. Evaluation: step and, for a classifier, test_accuracy, test_top_5 and "
          "test_loss.");

namespace belfry::trainers {

absl::StatusOr<int64_t> GlobalBatchSize(int towers, int64_t low, int64_t high) {
  const int64_t whole = absl::GetFlag(FLAGS_batch_size), per_tower = absl::GetFlag(FLAGS_batch_size_per_tower);
  if (per_tower == 0) {
    RETURN_IF_ERROR(CheckFlag("batch_size", whole, low, high));
    return whole;
  }
  RETURN_IF_ERROR(RejectFlags({"batch_size"}, "a run with --batch_size_per_tower"));
  RETURN_IF_ERROR(CheckFlag("batch_size_per_tower", per_tower, (low + towers - 1) / towers, high / towers));
  return per_tower * towers;
}

absl::Status CheckBatchFits(int64_t batch_size, int64_t examples, absl::string_view what) {
  if (batch_size <= examples) return absl::OkStatus();
  const int64_t per_tower = absl::GetFlag(FLAGS_batch_size_per_tower);
  return absl::InvalidArgumentError(absl::StrCat(
      per_tower == 0 ? absl::StrCat("--batch_size=", batch_size, " is")
                     : absl::StrCat("--batch_size_per_tower=", per_tower, " makes batches of ", batch_size, ","),
      " more than the data, ", Counted(examples, what)));
}

absl::StatusOr<int64_t> Steps(int64_t default_steps) {
  const int64_t steps = absl::GetFlag(FLAGS_steps);
  if (steps < -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--steps=", steps, " must be at least 0, or -1 for the default of ", default_steps));
  }
  return steps == -1 ? default_steps : steps;
}

absl::StatusOr<absl::Duration> MaxRunTime() {
  const absl::Duration limit = absl::GetFlag(FLAGS_max_run_time);
  if (limit <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_run_time=", absl::FormatDuration(limit), "; expected a time above 0, such as 3h50m"));
  }
  return limit;
}

absl::StatusOr<std::string> PrepareOutputs() {
  const std::string directory = absl::GetFlag(FLAGS_train_dir);
  RETURN_IF_ERROR(MakeDirectory("train_dir", directory));
  std::string file = absl::GetFlag(FLAGS_metrics_file);
  if (file.empty() && !directory.empty()) file = (std::filesystem::path(directory) / "metrics.jsonl").string();
  RETURN_IF_ERROR(MetricsWriter::Open(file).status());
  return file;
}

}  // namespace belfry::trainers
