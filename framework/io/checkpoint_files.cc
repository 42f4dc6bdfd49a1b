#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/io/checkpoint_files_impl.h"

namespace belfry::io {
namespace {

namespace fs = std::filesystem;

// True for errors that mean the file is not a usable checkpoint, so that another one may stand in. Other errors, such
// as a lack of memory or a disk that does not answer, must reach the user, who would otherwise silently lose steps.
bool IsNoCheckpoint(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsOutOfRange(status) ||
         absl::IsInvalidArgument(status);
}

std::string Steps(const std::vector<CheckpointFile>& files) {
  constexpr size_t kMax = 10;
  std::vector<std::string> steps;
  for (size_t i = files.size() > kMax ? files.size() - kMax : 0; i < files.size(); ++i) {
    steps.push_back(absl::StrCat(files[i].step));
  }
  return absl::StrCat(files.size() > kMax ? "..., " : "", absl::StrJoin(steps, ", "));
}

}  // namespace

std::string CheckpointName(int64_t step) { return absl::StrFormat("step-%08d.safetensors", step); }

std::optional<int64_t> StepOfName(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "step-") || !absl::ConsumeSuffix(&name, ".safetensors")) return std::nullopt;
  int64_t step;
  if (!std::all_of(name.begin(), name.end(), absl::ascii_isdigit) || !absl::SimpleAtoi(name, &step)) {
    return std::nullopt;
  }
  return step;
}

std::optional<Metric> TakeMetric(Metadata& metadata) {
  const auto take = [&](const char* key, const char* otherwise) {
    const auto found = metadata.find(key);
    if (found == metadata.end()) return std::string(otherwise);
    std::string text = std::move(found->second);
    metadata.erase(found);
    return text;
  };
  const std::string text = take(kMetricKey, "");
  Metric metric;
  metric.name = take(kMetricNameKey, "accuracy");
  metric.larger_is_better = take(kMetricBetterKey, kLarger) == kLarger;
  return absl::SimpleAtod(text, &metric.value) ? std::optional(std::move(metric)) : std::nullopt;
}

std::string PathIn(const std::string& folder, absl::string_view name) {
  return (fs::path(folder) / std::string(name)).string();
}

std::string FollowLink(const std::string& folder, const char* name) {
  std::error_code error;
  const fs::path target = fs::read_symlink(PathIn(folder, name), error);
  return error ? PathIn(folder, name) : (fs::path(folder) / target).string();
}

absl::StatusOr<std::vector<CheckpointFile>> ListCheckpoints(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder));
  std::vector<CheckpointFile> files;
  for (const std::string& name : names) {
    const std::optional<int64_t> step = StepOfName(name);
    const std::string path = PathIn(folder, name);
    std::error_code no_type;
    if (step && fs::is_regular_file(fs::symlink_status(path, no_type))) files.push_back({*step, path});
  }
  std::sort(files.begin(), files.end(), [](const CheckpointFile& a, const CheckpointFile& b) {
    return std::tie(a.step, a.path) < std::tie(b.step, b.path);
  });
  return files;
}

absl::StatusOr<Checkpoint> LoadCheckpoint(const std::string& path) {
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  Checkpoint checkpoint{.path = path, .metadata = file.metadata()};
  const auto step = checkpoint.metadata.find(kStepKey);
  if (step == checkpoint.metadata.end() || !absl::SimpleAtoi(step->second, &checkpoint.step) || checkpoint.step < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": its metadata has no \"", kStepKey,
                     "\", so it is a file of tensors, but not a training checkpoint; read these by "
                     "io::ReadSafetensors"));
  }
  checkpoint.metric = TakeMetric(checkpoint.metadata);
  checkpoint.metadata.erase(kStepKey);
  ASSIGN_OR_RETURN(checkpoint.tensors, file.ReadAll());
  return checkpoint;
}

absl::StatusOr<Checkpoint> LoadLatestCheckpoint(const std::string& folder) {
  ASSIGN_OR_RETURN(std::vector<CheckpointFile> files, ListCheckpoints(folder));
  const std::string latest = FollowLink(folder, kLatest);
  absl::StatusOr<Checkpoint> checkpoint = LoadCheckpoint(latest);
  if (checkpoint.ok() || !IsNoCheckpoint(checkpoint.status())) return checkpoint;
  if (files.empty() && absl::IsNotFound(checkpoint.status())) {
    for (const absl::string_view link : {kLatest, kBest}) {
      std::error_code error;
      const std::filesystem::path path = std::filesystem::path(folder) / std::string(link);
      if (!std::filesystem::is_symlink(std::filesystem::symlink_status(path, error))) continue;
      spdlog::warn("{} leads to {}, which does not exist: the checkpoints of a run are gone", path.string(),
                   std::filesystem::read_symlink(path, error).string());
    }
    return absl::NotFoundError(
        absl::StrCat(folder, ": there are no checkpoints (step-<n>.safetensors) in this folder"));
  }
  std::string why(checkpoint.status().message());
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    if (file->path == latest) continue;
    checkpoint = LoadCheckpoint(file->path);
    if (checkpoint.ok()) {
      spdlog::warn("{}: using the checkpoint of step {} instead of '{}': {}", folder, file->step, kLatest, why);
      return checkpoint;
    }
    if (!IsNoCheckpoint(checkpoint.status())) return checkpoint;
    absl::StrAppend(&why, "; ", checkpoint.status().message());
  }
  return absl::DataLossError(absl::StrCat(folder, ": none of the checkpoints in this folder is intact: ", why));
}

absl::StatusOr<Checkpoint> LoadBestCheckpoint(const std::string& folder) {
  absl::StatusOr<Checkpoint> checkpoint = LoadCheckpoint(FollowLink(folder, kBest));
  if (!absl::IsNotFound(checkpoint.status())) return checkpoint;
  return absl::NotFoundError(
      absl::StrCat(checkpoint.status().message(), "; no checkpoint in this folder has a metric"));
}

absl::StatusOr<Checkpoint> LoadCheckpointOfStep(const std::string& folder, int64_t step) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointFile> files, ListCheckpoints(folder));
  for (const CheckpointFile& file : files) {
    if (file.step == step) return LoadCheckpoint(file.path);
  }
  return absl::NotFoundError(absl::StrCat(folder, ": there is no checkpoint of step ", step,
                                          "; available steps: ", files.empty() ? "none" : Steps(files)));
}

}  // namespace belfry::io
