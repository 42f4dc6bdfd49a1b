#include "trainers/callbacks/metrics.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/io/file.h"

namespace belfry::trainers {
namespace {

constexpr char kStep[] = "\"step\":", kEvaluation[] = "\"test_";  // the latter begins the names of its metrics
constexpr double kMaxExactInteger = 9007199254740992;             // 2^53

// Removes temporary files that killed runs left beside the file.
void RemoveLeftovers(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const absl::StatusOr<std::vector<std::string>> names = io::ListFolder(folder.string());
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (io::BaseOfLeftover(name) == path.filename().string()) io::RemoveFile((folder / name).string()).IgnoreError();
  }
}

// The step of a line of ours.
std::optional<int64_t> StepOf(absl::string_view line) {
  const size_t found = line.find(kStep);
  if (found == line.npos) return std::nullopt;
  line.remove_prefix(found + std::strlen(kStep));
  int64_t step = 0;
  return absl::SimpleAtoi(line.substr(0, line.find_first_of(",}")), &step) ? std::optional(step) : std::nullopt;
}

// Keeps the lines before `start` and lines without a step. Drops an incomplete last line.
absl::Status KeepBefore(const std::string& path, const RunStart& start) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) return absl::OkStatus();
  RemoveLeftovers(path);
  const absl::StatusOr<std::string> text = io::ReadFile(path, std::numeric_limits<uint64_t>::max());  // ours
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  std::string kept;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(*text).substr(0, text->rfind('\n') + 1), '\n')) {
    const std::optional<int64_t> step = StepOf(line);
    const bool evaluation = absl::StrContains(line, kEvaluation);
    const int64_t first = start.step + (evaluation ? (start.evaluated ? 1 : 0) : (start.logged ? 0 : -1));
    const bool later = step.has_value() && *step >= first;
    if (!later && !line.empty()) absl::StrAppend(&kept, line, "\n");
  }
  return kept == *text ? absl::OkStatus() : io::WriteFile(path, kept);
}

}  // namespace

absl::StatusOr<MetricsWriter> MetricsWriter::Open(const std::string& path, std::optional<RunStart> start) {
  MetricsWriter writer;
  if (path.empty()) return writer;
  if (start.has_value()) RETURN_IF_ERROR(KeepBefore(path, *start));
  writer.path_ = path;
  writer.file_.reset(std::fopen(path.c_str(), "a"));
  if (writer.file_ == nullptr) {
    return io::SystemError(path, "cannot open the metrics file", errno);
  }
  return writer;
}

absl::Status MetricsWriter::Write(absl::Span<const std::pair<absl::string_view, double>> values) {
  if (file_ == nullptr) return absl::OkStatus();
  // Piece by piece: the destructor of an object of the library needs memory, and ends the program if there is none.
  std::string line;
  for (const auto& [name, value] : values) {
    nlohmann::json number;
    if (value == std::floor(value) && std::fabs(value) < kMaxExactInteger) {
      number = static_cast<int64_t>(value);
    } else if (std::isfinite(value)) {
      number = value;
    }
    absl::StrAppend(&line, line.empty() ? "{" : ",", nlohmann::json(std::string(name)).dump(), ":", number.dump());
  }
  absl::StrAppend(&line, line.empty() ? "{}\n" : "}\n");
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() || std::fflush(file_.get()) != 0) {
    return io::SystemError(path_, "cannot write the metrics file", errno);
  }
  return absl::OkStatus();
}

}  // namespace belfry::trainers
