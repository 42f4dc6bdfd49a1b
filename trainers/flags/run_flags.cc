#include <filesystem>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "trainers/callbacks/metrics.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/program_flags.h"

namespace belfry::trainers {
namespace {

absl::Status CheckBatch(absl::string_view flag, int64_t value, int64_t low, int64_t high) {
  if (low <= value && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, " must be ", low, " to ", high));
}

}  // namespace

void ProgramFlags::AddRun() {
  all.Section("Run");
  all.Add("steps", &steps, Range(0).Or(-1).Recorded(), "Number of training steps; -1: the program's default.");
  all.Add("batch_size", &batch_size, Fixed(),
          "Examples per step over all towers, so that the result does not depend on the number of devices, up to "
          "rounding.");
  all.Add(
      "batch_size_per_tower", &batch_size_per_tower,
      "Examples per step in each tower, instead of --batch_size: the global batch grows with the number of devices.");
  all.Add("seed", &seed, Fixed(), "Seed of the initial values, the order of examples, augmentation and dropout.");
  all.Add("max_run_time", &max_run_time,
          "Time after which the training saves and ends with status 142, such as 3h50m or 45s, so that a batch system "
          "can start it again; inf: no limit.");
  all.Add("train_dir", &training.directory, PerTask().Files(FileUse::kRunDirectory),
          "Directory for what the run writes: metrics.jsonl and, if the program has them, checkpoints, TensorBoard "
          "event files and traces. Created if missing.");
  all.Add(
      "metrics_file", &metrics_file, PerTask().Files(FileUse::kAppends),
      "File to append metrics to, one JSON object per line. Training: step, loss, parts of it such as cross_entropy, "
      "learning_rate, images_per_second (or what the program counts) and, with a loss scale, loss_scale and "
      "skipped_steps. Evaluation: step and, for a classifier, test_accuracy, test_top_5 and test_loss.");
}

absl::StatusOr<int64_t> ProgramFlags::GlobalBatchSize(int towers_of_all, int64_t low, int64_t high) const {
  if (batch_size_per_tower == 0) {
    RETURN_IF_ERROR(CheckBatch("batch_size", batch_size, low, high));
    return batch_size;
  }
  RETURN_IF_ERROR(all.Reject({"batch_size"}, "a run with --batch_size_per_tower"));
  RETURN_IF_ERROR(CheckBatch("batch_size_per_tower", batch_size_per_tower, (low + towers_of_all - 1) / towers_of_all,
                             high / towers_of_all));
  return batch_size_per_tower * towers_of_all;
}

absl::Status ProgramFlags::CheckBatchFits(int64_t batch, int64_t examples, absl::string_view what) const {
  if (batch <= examples) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      batch_size_per_tower == 0
          ? absl::StrCat("--batch_size=", batch, " is")
          : absl::StrCat("--batch_size_per_tower=", batch_size_per_tower, " makes batches of ", batch, ","),
      " more than the data, ", Counted(examples, what)));
}

absl::StatusOr<std::string> ProgramFlags::PrepareOutputs() const {
  RETURN_IF_ERROR(MakeDirectory("train_dir", training.directory));
  std::string file = metrics_file;
  if (file.empty() && !training.directory.empty()) {
    file = (std::filesystem::path(training.directory) / "metrics.jsonl").string();
  }
  RETURN_IF_ERROR(MetricsWriter::Open(file).status());
  return file;
}

}  // namespace belfry::trainers
