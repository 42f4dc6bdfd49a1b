// Folders of checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/io/safetensors.h"

namespace belfry::io {

// A checkpoint file in a folder, "step-<n>.safetensors", with or without leading zeros.
struct CheckpointFile {
  int64_t step = 0;
  std::string path;
};

// A figure of a model, such as its accuracy on test data.
struct Metric {
  std::string name = {};  // "accuracy"
  double value = 0;
  bool larger_is_better = false;  // true for an accuracy, false for a loss
  bool percent = false;           // the value is a share of 1, shown in per cent; checkpoints do not keep this
};

// The saved state of a training run.
struct Checkpoint {
  std::string path;
  int64_t step = 0;
  std::optional<Metric> metric;
  Metadata metadata;  // without the step and the metric
  std::vector<NamedTensor> tensors;
};

// The name of a checkpoint's file in its folder: "step-00000100.safetensors".
std::string CheckpointName(int64_t step);

// The checkpoints in `folder`, by ascending step. They are not opened, so some may be damaged. NotFound: no such
// folder.
absl::StatusOr<std::vector<CheckpointFile>> ListCheckpoints(const std::string& folder);

// Reads and verifies a whole file. DataLoss: it is damaged. InvalidArgument: it is intact, but not a checkpoint of
// ours.
absl::StatusOr<Checkpoint> LoadCheckpoint(const std::string& path);
// Loads the checkpoint that the link "latest" points to. If that is missing or damaged, loads the intact one of the
// highest step and logs a warning that names those it skipped. NotFound: there are no checkpoints. DataLoss: none of
// them is intact.
absl::StatusOr<Checkpoint> LoadLatestCheckpoint(const std::string& folder);
// Loads the checkpoint that the link "best" points to. NotFound: no checkpoint has a metric.
absl::StatusOr<Checkpoint> LoadBestCheckpoint(const std::string& folder);
// Loads the checkpoint of one step. The NotFound error lists the steps there are.
absl::StatusOr<Checkpoint> LoadCheckpointOfStep(const std::string& folder, int64_t step);

// The path of the checkpoint that CheckpointDirectory::Save, after that of "latest", points "best" to, by the metrics
// in the files; "" if none has one. Errors: those of ListCheckpoints.
absl::StatusOr<std::string> FindBest(const std::string& folder);

struct CheckpointDirectoryOptions {
  int keep_latest = 5;  // number of latest checkpoints to keep; at least 1
  int keep_best = 1;    // number of best checkpoints (of those with a metric) to keep besides these
};

// The single writer of a folder of checkpoints; a second one, in this process or another on this machine, is refused.
// Movable; not thread-safe. If the process is killed at any point, every checkpoint that was complete remains, and
// "latest" points to one of them.
class CheckpointDirectory {
 public:
  // Creates the folder and its parents if needed, and removes what interrupted writes left behind. Errors:
  // InvalidArgument for options out of range; a folder that cannot be created or read; FailedPrecondition if another
  // training writes there.
  static absl::StatusOr<CheckpointDirectory> Open(const std::string& folder,
                                                  const CheckpointDirectoryOptions& options = {});
  CheckpointDirectory(CheckpointDirectory&& other) noexcept;
  CheckpointDirectory& operator=(CheckpointDirectory&& other) noexcept;
  ~CheckpointDirectory();

  const std::string& folder() const { return folder_; }
  const CheckpointDirectoryOptions& options() const { return options_; }

  // Writes "step-<n>.safetensors", replacing a checkpoint of the same step, and points "latest" to it.
  //
  // Points "best" to the checkpoint with the best metric, among those whose metric has the same name as that of the
  // last one that was saved with a metric, which also says whether larger is better. Of equal metrics the one of the
  // lower step wins; NaN never does. Damaged checkpoints have no metric.
  //
  // Then removes all checkpoints except the `keep_latest` latest and the `keep_best` best. Checkpoints of higher steps
  // than this one were left by a run that was given up, and go first. Other files are left alone.
  //
  // Errors: InvalidArgument for a step below 0, a metric without a name, or metadata with a key under which the step
  // and the metric are saved ("belfry.step", "belfry.metric", "belfry.metric_name", "belfry.metric_better"); those of
  // writing, which leave all other checkpoints unchanged.
  absl::Status Save(int64_t step, absl::Span<const NamedTensor> tensors, const Metadata& metadata = {},
                    const std::optional<Metric>& metric = std::nullopt);

 private:
  CheckpointDirectory(std::string folder, const CheckpointDirectoryOptions& options, int lock);
  std::string folder_;
  CheckpointDirectoryOptions options_;
  int lock_ = -1;  // descriptor of the locked folder
};

}  // namespace belfry::io
