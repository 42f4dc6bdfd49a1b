#include "framework/io/checkpoint_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/checkpoint_files_impl.h"
#include "spdlog/fmt/fmt.h"

namespace belfry::io {
namespace {

namespace fs = std::filesystem;

// A checkpoint in the folder, with what decides whether it is kept.
struct Kept {
  CheckpointFile file;
  std::optional<Metric> metric;
};

absl::Status RemoveLeftovers(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder));
  for (const std::string& name : names) {
    const absl::string_view base = BaseOfLeftover(name);
    if (base == kLatest || base == kBest || StepOfName(base)) RETURN_IF_ERROR(RemoveFile(PathIn(folder, name)));
  }
  return absl::OkStatus();
}

// The first save would fail: a link is renamed into the place of a file or another link, but not of a folder.
absl::Status CheckLinks(const std::string& folder) {
  for (const char* name : {kLatest, kBest}) {
    std::error_code error;
    const std::string path = PathIn(folder, name);
    if (!fs::is_directory(fs::symlink_status(path, error))) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is a folder in the place of the link to a checkpoint; move it elsewhere"));
  }
  return absl::OkStatus();
}

std::optional<Metric> ReadMetric(const std::string& path) {
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
  if (!file.ok()) return std::nullopt;
  Metadata metadata = file->metadata();
  return TakeMetric(metadata);
}

// Indices of the checkpoints whose metric has the name of the last one's, best first; ties go to the lower step. `all`:
// the last one comes last.
std::vector<size_t> ByMetric(const std::vector<Kept>& all) {
  const Metric* last = nullptr;
  for (const Kept& kept : all) last = kept.metric.has_value() ? &*kept.metric : last;
  std::vector<size_t> order;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::optional<Metric>& metric = all[i].metric;
    if (metric.has_value() && metric->name == last->name && !std::isnan(metric->value)) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const double value_a = all[a].metric->value, value_b = all[b].metric->value;
    if (value_a == value_b) return all[a].file.step < all[b].file.step;
    return (value_a > value_b) == last->larger_is_better;
  });
  return order;
}

// Failing to remove an old checkpoint is no failure of Save: the new one is already written.
void Remove(const std::string& path) {
  const absl::Status removed = RemoveFile(path);
  if (!removed.ok()) {
    spdlog::warn("A checkpoint that is no longer needed could not be removed: {}", std::string(removed.message()));
  }
}

}  // namespace

absl::StatusOr<std::string> FindBest(const std::string& folder) {
  ASSIGN_OR_RETURN(std::vector<CheckpointFile> files, ListCheckpoints(folder));
  const std::optional<int64_t> last = StepOfName(fs::path(FollowLink(folder, kLatest)).filename().string());
  std::stable_partition(files.begin(), files.end(), [&](const CheckpointFile& file) { return file.step > last; });
  std::vector<Kept> all;
  for (const CheckpointFile& file : files) all.push_back({file, ReadMetric(file.path)});
  const std::vector<size_t> best = ByMetric(all);
  return best.empty() ? "" : all[best[0]].file.path;
}

absl::StatusOr<CheckpointDirectory> CheckpointDirectory::Open(const std::string& folder,
                                                              const CheckpointDirectoryOptions& options) {
  if (folder.empty()) return absl::InvalidArgumentError("The name of the checkpoint folder is empty");
  if (options.keep_latest < 1 || options.keep_best < 0) {
    return absl::InvalidArgumentError(absl::StrCat("keep_latest is ", options.keep_latest, " and keep_best is ",
                                                   options.keep_best, "; expected at least 1 and at least 0"));
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return SystemError(folder, "cannot create the folder", error.value());
  CheckpointDirectory directory(folder, options, ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.lock_ < 0) return SystemError(folder, "cannot open the folder", errno);
  // Some network file systems cannot lock folders; there, keeping to one writer is up to the user.
  if (::flock(directory.lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder, ": another training run saves its checkpoints here; choose another folder, or stop that run"));
  }
  RETURN_IF_ERROR(CheckLinks(folder));
  RETURN_IF_ERROR(RemoveLeftovers(folder));
  return directory;
}

CheckpointDirectory::CheckpointDirectory(std::string folder, const CheckpointDirectoryOptions& options, int lock)
    : folder_(std::move(folder)), options_(options), lock_(lock) {}

CheckpointDirectory::CheckpointDirectory(CheckpointDirectory&& other) noexcept
    : folder_(std::move(other.folder_)), options_(other.options_), lock_(std::exchange(other.lock_, -1)) {}

CheckpointDirectory& CheckpointDirectory::operator=(CheckpointDirectory&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(options_, other.options_);
  std::swap(lock_, other.lock_);
  return *this;
}

CheckpointDirectory::~CheckpointDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

absl::Status CheckpointDirectory::Save(int64_t step, absl::Span<const NamedTensor> tensors, const Metadata& metadata,
                                       const std::optional<Metric>& metric) {
  if (step < 0) return absl::InvalidArgumentError(absl::StrCat(folder_, ": cannot save step ", step));
  if (metric.has_value() && metric->name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(folder_, ": the metric of step ", step, " has no name"));
  }
  Metadata all = metadata;
  for (const char* key : {kStepKey, kMetricKey, kMetricNameKey, kMetricBetterKey}) {
    if (!all.contains(key)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(folder_, ": the metadata key '", key, "' is reserved for checkpoints; choose another"));
  }
  all.emplace(kStepKey, absl::StrCat(step));
  if (metric.has_value()) {
    all.emplace(kMetricKey, fmt::format("{:.17g}", metric->value));
    all.emplace(kMetricNameKey, metric->name);
    all.emplace(kMetricBetterKey, metric->larger_is_better ? kLarger : kSmaller);
  }
  const std::string name = CheckpointName(step), path = PathIn(folder_, name);
  RETURN_IF_ERROR(WriteSafetensors(path, tensors, all));
  RETURN_IF_ERROR(ReplaceLink(PathIn(folder_, kLatest), name));

  ASSIGN_OR_RETURN(std::vector<CheckpointFile> files, ListCheckpoints(folder_));
  std::vector<std::string> unneeded;
  std::vector<Kept> kept;
  std::stable_partition(files.begin(), files.end(), [&](const CheckpointFile& file) { return file.step > step; });
  for (CheckpointFile& file : files) {
    const bool other_spelling = file.step == step && file.path != path;
    if (other_spelling) {
      unneeded.push_back(file.path);
    } else {
      std::optional<Metric> its_metric = options_.keep_best > 0 ? ReadMetric(file.path) : std::nullopt;
      kept.push_back({std::move(file), std::move(its_metric)});
    }
  }
  const std::vector<size_t> best = ByMetric(kept);
  if (!best.empty()) {
    const std::string& best_path = kept[best[0]].file.path;
    if (FollowLink(folder_, kBest) != best_path) {
      RETURN_IF_ERROR(ReplaceLink(PathIn(folder_, kBest), fs::path(best_path).filename().string()));
    }
  }
  const auto of_the_best = best.begin() + std::min<ptrdiff_t>(options_.keep_best, std::ssize(best));
  for (size_t i = 0; i + options_.keep_latest < kept.size(); ++i) {
    if (std::find(best.begin(), of_the_best, i) == of_the_best) unneeded.push_back(kept[i].file.path);
  }
  for (const std::string& unneeded_path : unneeded) Remove(unneeded_path);
  return absl::OkStatus();
}

}  // namespace belfry::io
