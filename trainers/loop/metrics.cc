#include "trainers/loop/metrics.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/io/file.h"

namespace belfry::trainers {
namespace {

constexpr char kEvaluation[] = "test_";                // begins the names of its metrics
constexpr double kMaxExactInteger = 9007199254740992;  // 2^53

// Removes temporary files that killed runs left beside the file.
void RemoveLeftovers(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (io::BaseOfLeftover(name) == path.filename().string()) io::RemoveFile(entry.path().string()).IgnoreError();
  }
}

bool IsEvaluation(const nlohmann::json& line) {
  return std::any_of(line.items().begin(), line.items().end(),
                     [](const auto& item) { return absl::StartsWith(item.key(), kEvaluation); });
}

// Keeps the lines before `start` and lines without a step. Drops an incomplete last line.
absl::Status KeepBefore(const std::string& path, const RunStart& start) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) return absl::OkStatus();
  RemoveLeftovers(path);
  const absl::StatusOr<std::string> text = io::ReadFile(path);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  std::string kept;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(*text).substr(0, text->rfind('\n') + 1), '\n')) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    const bool later =
        object.is_object() && object.contains("step") && object["step"].is_number() &&
        object["step"].get<double>() >= static_cast<double>(start.step + (start.evaluated && IsEvaluation(object)));
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
    return absl::UnavailableError(absl::StrCat("Cannot open the metrics file ", path, ": ", std::strerror(errno)));
  }
  return writer;
}

absl::Status MetricsWriter::Write(absl::Span<const std::pair<absl::string_view, double>> values) {
  if (file_ == nullptr) return absl::OkStatus();
  nlohmann::ordered_json object;
  for (const auto& [name, value] : values) {
    nlohmann::ordered_json& entry = object[std::string(name)];
    if (value == std::floor(value) && std::fabs(value) < kMaxExactInteger) {
      entry = static_cast<int64_t>(value);
    } else if (std::isfinite(value)) {
      entry = value;
    }
  }
  const std::string line = object.dump() + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() || std::fflush(file_.get()) != 0) {
    return absl::UnavailableError(absl::StrCat("Cannot write the metrics file ", path_, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace belfry::trainers
