// A folder of checkpoints.
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

// A file in the folder, "step-<n>.safetensors", with or without leading zeros.
struct CheckpointFile {
  int64_t step = 0;
  std::string path;
};

// What was saved of a training.
struct Checkpoint {
  std::string path;
  int64_t step = 0;
  std::optional<double> metric;
  Metadata metadata;  // without step and metric
  std::vector<NamedTensor> tensors;
};

// The checkpoints in a folder by step, ascending; not opened, so one may be damaged. NotFound: no such folder.
absl::StatusOr<std::vector<CheckpointFile>> ListCheckpoints(const std::string& folder);

// Reads and checks a whole file. DataLoss: it is damaged. InvalidArgument: it is whole, but no checkpoint of ours.
absl::StatusOr<Checkpoint> LoadCheckpoint(const std::string& path);
// Of a folder, the one that the link "latest" leads to. If that is missing or damaged, the whole one of the highest
// step, and the log warns of what was passed over. NotFound: there are no checkpoints; DataLoss: none is whole.
absl::StatusOr<Checkpoint> LoadLatestCheckpoint(const std::string& folder);
// The one that the link "best" leads to. NotFound: no checkpoint has a metric.
absl::StatusOr<Checkpoint> LoadBestCheckpoint(const std::string& folder);
// The one of a step. NotFound says which steps there are.
absl::StatusOr<Checkpoint> LoadCheckpointOfStep(const std::string& folder, int64_t step);

struct CheckpointDirectoryOptions {
  int keep_latest = 5;           // how many are kept; at least 1
  int keep_best = 1;             // and of those with a metric how many of the best beside them
  bool larger_is_better = true;  // of metrics: an accuracy, not a loss
};

// The folder as its one writer has it: a second one, in this process or another on this machine, is refused. Movable;
// not thread-safe. Killing the process at any instant leaves every checkpoint that was complete, and "latest" leading
// to one.
class CheckpointDirectory {
 public:
  // Makes the folder, and those above it, if there is none; removes what interrupted writes have left. Errors:
  // options out of range, a folder that cannot be made or read; FailedPrecondition: another one writes there.
  static absl::StatusOr<CheckpointDirectory> Open(const std::string& folder,
                                                  const CheckpointDirectoryOptions& options = {});
  CheckpointDirectory(CheckpointDirectory&& other) noexcept;
  CheckpointDirectory& operator=(CheckpointDirectory&& other) noexcept;
  ~CheckpointDirectory();

  const std::string& folder() const { return folder_; }
  const CheckpointDirectoryOptions& options() const { return options_; }

  // Writes "step-<n>.safetensors", with the step and the metric in its metadata ("belfry.step", "belfry.metric"), which
  // replaces one of the same step; lets "latest" lead to it, and "best" if no other's metric is better (of equals the
  // earlier step counts; NaN never does); then removes what need not be kept. Checkpoints of higher steps are those of
  // a run that was given up, and count as the oldest; damaged ones as without a metric. Other files are left alone.
  // After an error in writing, all other checkpoints are as they were.
  absl::Status Save(int64_t step, absl::Span<const NamedTensor> tensors, const Metadata& metadata = {},
                    std::optional<double> metric = std::nullopt);

 private:
  CheckpointDirectory(std::string folder, const CheckpointDirectoryOptions& options, int lock);
  std::string folder_;
  CheckpointDirectoryOptions options_;
  int lock_ = -1;  // descriptor of the folder, locked
};

}  // namespace belfry::io
