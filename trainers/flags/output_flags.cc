#include "trainers/flags/output_flags.h"

#include <filesystem>

#include "absl/flags/flag.h"
#include "framework/base/status.h"
#include "trainers/callbacks/metrics.h"
#include "trainers/flags/command_line.h"

ABSL_FLAG(std::string, train_dir, "",
          "Directory for what the run writes: metrics.jsonl and, if the program has them, checkpoints, TensorBoard "
          "event files and traces. Created if missing.");
ABSL_FLAG(std::string, metrics_file, "",
          "File to append metrics to, one JSON object per line. Training: step, loss, parts of it such as "
          "cross_entropy, learning_rate, images_per_second (or what the program counts) and, with a loss scale, "
          "loss_scale and skipped_steps. Evaluation: step and, for a classifier, test_accuracy, test_top_5 and "
          "test_loss.");

namespace belfry::trainers {

absl::StatusOr<std::string> PrepareOutputs() {
  const std::string directory = absl::GetFlag(FLAGS_train_dir);
  RETURN_IF_ERROR(MakeDirectory("train_dir", directory));
  std::string file = absl::GetFlag(FLAGS_metrics_file);
  if (file.empty() && !directory.empty()) file = (std::filesystem::path(directory) / "metrics.jsonl").string();
  RETURN_IF_ERROR(MetricsWriter::Open(file).status());
  return file;
}

}  // namespace belfry::trainers
