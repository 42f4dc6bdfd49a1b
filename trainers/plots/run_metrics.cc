#include "trainers/plots/run_metrics.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/file.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxLineBytes = 1 << 20;
constexpr size_t kMaxKeys = 256;
constexpr double kMaxStep = 9007199254740992;  // 2^53
constexpr char kMetricsFile[] = "metrics.jsonl";

// `line` with null for the NaN and infinities that other writers emit, although JSON has no such numbers.
std::string WithoutNans(absl::string_view line) {
  if (!absl::StrContains(line, "NaN") && !absl::StrContains(line, "Infinity")) return std::string(line);
  std::string text;
  bool quoted = false;
  while (!line.empty()) {
    size_t length = 1;
    if (quoted && line[0] == '\\') length = std::min<size_t>(2, line.size());
    if (line[0] == '"') quoted = !quoted;
    for (absl::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (!quoted && absl::StartsWith(line, word)) length = word.size();
    }
    text += !quoted && length > 1 ? "null" : std::string(line.substr(0, length));
    line.remove_prefix(length);
  }
  return text;
}

// The object in a line. A line that breaks off ends where the next one begins.
absl::StatusOr<nlohmann::json> ParseLine(absl::string_view line) {
  const size_t last = line.rfind('{');
  for (const size_t begin : {size_t{0}, line[0] == '{' && last != absl::string_view::npos ? last : 0}) {
    nlohmann::json object = nlohmann::json::parse(WithoutNans(line.substr(begin)), nullptr, /*allow_exceptions=*/false);
    if (object.is_object()) return object;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::CHexEscape(line.substr(0, 60)), line.size() > 60 ? "..." : "", "' is not a JSON object"));
}

absl::Status AddLine(absl::string_view line, RunMetrics& run) {
  ASSIGN_OR_RETURN(nlohmann::json object, ParseLine(line));
  const double step = object["step"].is_number() ? object["step"].get<double>() : -1;
  if (!(0 <= step && step <= kMaxStep && step == std::floor(step))) {
    return absl::InvalidArgumentError("\"step\" is not a whole number from 0 to 2^53");
  }
  object.erase("step");
  const auto whole = static_cast<int64_t>(step);
  if (whole < run.last_step) {
    for (auto& [key, curve] : run.curves) curve.DropFrom(whole);
  }
  run.last_step = whole;
  ++run.lines;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_number() && !value.is_null()) continue;
    if (run.curves.size() == kMaxKeys && !run.curves.contains(key)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", absl::CHexEscape(key), "' exceeds the limit of ", kMaxKeys, " keys"));
    }
    run.curves[key].Add(whole, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
  return absl::OkStatus();
}

}  // namespace

void Column::Append(const Column& next) {
  last_step = std::max(last_step, next.last_step);
  if (next.count == 0) return;
  if (count == 0 || next.min < min) min = next.min, min_step = next.min_step;
  if (count == 0 || next.max > max) max = next.max, max_step = next.max_step;
  last = next.last;
  sum += next.sum;
  count += next.count;
}

void Curve::Add(int64_t step, double value) {
  Column one{.first_step = step, .last_step = step};
  if (std::isfinite(value)) {
    one = {step, step, /*count=*/1, /*sum=*/value, /*last=*/value, /*min=*/value, /*max=*/value, step, step};
  }
  const int64_t number = step >> shift_;
  if (!columns_.empty() && columns_.rbegin()->first == number) {
    columns_.rbegin()->second.Append(one);
    return;
  }
  columns_.emplace_hint(columns_.end(), number, one);
  while (columns_.size() > kMaxColumns) Double();
}

void Curve::DropFrom(int64_t step) {
  // The column that holds `step` keeps its earlier steps.
  auto first = columns_.lower_bound(step >> shift_);
  if (first != columns_.end() && first->second.first_step < step) {
    first->second.last_step = std::min(first->second.last_step, step - 1);
    ++first;
  }
  columns_.erase(first, columns_.end());
}

void Curve::Coarsen(int64_t width) {
  while (this->width() < width) Double();
}

void Curve::Merge(Curve other) {
  Coarsen(other.width());
  other.Coarsen(width());
  for (const auto& [number, column] : other.columns_) {
    const auto [place, is_new] = columns_.emplace(number, column);
    if (is_new) continue;
    place->second.first_step = std::min(place->second.first_step, column.first_step);
    place->second.Append(column);
  }
}

bool Curve::IsLone(int64_t number) const {
  const auto column = columns_.find(number), next = std::next(column);
  const bool first = column == columns_.begin() || std::prev(column)->second.count == 0;
  const bool last = next == columns_.end() || next->second.count == 0;
  return first && last;
}

Column Curve::Total(int64_t first, int64_t last) const {
  Column total;
  for (auto i = columns_.lower_bound(first); i != columns_.end() && i->first <= last; ++i) {
    if (i->second.count == 0) continue;
    if (total.count == 0) total.first_step = i->second.first_step;
    total.Append(i->second);
  }
  return total;
}

void Curve::Double() {
  std::map<int64_t, Column> merged;
  for (const auto& [number, column] : columns_) {
    const auto [place, is_new] = merged.emplace(number >> 1, column);
    if (!is_new) place->second.Append(column);
  }
  columns_ = std::move(merged);
  ++shift_;
}

Curve RunMetrics::Sum(absl::string_view prefix) const {
  Curve sum;
  for (const auto& [key, curve] : curves) {
    if (absl::StartsWith(key, prefix)) sum.Merge(curve);
  }
  return sum;
}

absl::StatusOr<RunMetrics> ParseRunMetrics(std::istream& in, absl::string_view name) {
  RunMetrics run{.name = std::string(name)};
  std::vector<char> buffer(kMaxLineBytes + 1);
  absl::Status torn;  // a line that breaks off, until another follows
  for (int64_t number = 1; in.good(); ++number) {
    in.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    if (in.bad()) return absl::UnavailableError(absl::StrCat(name, ": reading failed before the end of the file"));
    const bool complete = in.good();
    absl::string_view line(buffer.data(), static_cast<size_t>(in.gcount()) - (complete ? 1 : 0));
    absl::Status status;
    const bool too_long = in.fail() && !in.eof();
    if (too_long) {
      status = absl::InvalidArgumentError("the line is longer than 1 MiB");
    } else if (line = absl::StripAsciiWhitespace(line); !line.empty()) {
      status = AddLine(line, run);
    }
    if (!line.empty()) RETURN_IF_ERROR(torn);
    if (status.ok()) continue;
    const bool breaks_off = !line.empty() && line.front() == '{' && line.back() != '}';
    status = absl::InvalidArgumentError(absl::StrCat(name, ":", number, ": ", status.message(),
                                                     "; expected a line such as {\"step\": 10, \"loss\": 2.1}"));
    if (!breaks_off || too_long) return status;
    torn = status;
  }
  run.torn = !torn.ok();
  return run;
}

absl::StatusOr<RunMetrics> ReadRunMetrics(const std::string& path) {
  std::error_code error;
  const bool directory = fs::is_directory(path, error);
  const fs::path file = directory ? fs::path(path) / kMetricsFile : fs::path(path);
  if (!fs::exists(file, error)) {
    return absl::NotFoundError(
        absl::StrCat(file.string(), ": no such file; a run writes it with --train_dir=DIR or --metrics_file=FILE"));
  }
  RETURN_IF_ERROR(io::InputFile::Open(file.string()).status());  // a pipe may never end
  std::ifstream in(file, std::ios::binary);
  if (!in) return absl::UnavailableError(absl::StrCat(file.string(), ": ", std::strerror(errno)));
  ASSIGN_OR_RETURN(RunMetrics run, ParseRunMetrics(in, file.string()));
  if (run.lines == 0) return absl::FailedPreconditionError(absl::StrCat(file.string(), ": no line of metrics yet"));
  const fs::path whole = fs::weakly_canonical(file, error);
  run.name = (whole.filename() == kMetricsFile ? whole.parent_path().filename() : whole.stem()).string();
  return run;
}

absl::StatusOr<std::vector<RunMetrics>> ReadRunMetrics(const std::vector<std::string>& paths) {
  std::vector<RunMetrics> runs;
  std::map<std::string, int> uses;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(runs.emplace_back(), ReadRunMetrics(path));
    ++uses[runs.back().name];
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    if (uses[runs[i].name] > 1) runs[i].name = paths[i];
  }
  return runs;
}

}  // namespace belfry::trainers
