#include "trainers/plots/run_metrics.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestLine = 1 << 20;
constexpr size_t kMaxKeys = 256;
constexpr double kLargestStep = 9007199254740992;  // 2^53
constexpr char kMetricsFile[] = "metrics.jsonl";

// Collects the numbers of one object; nested values are passed over.
class Numbers : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Add(std::numeric_limits<double>::quiet_NaN()); }
  bool number_integer(int64_t value) override { return Add(static_cast<double>(value)); }
  bool number_unsigned(uint64_t value) override { return Add(static_cast<double>(value)); }
  bool number_float(double value, const std::string&) override { return Add(value); }
  bool boolean(bool) override { return depth_ > 0; }
  bool string(std::string&) override { return depth_ > 0; }
  bool binary(nlohmann::json::binary_t&) override { return depth_ > 0; }
  bool start_object(size_t) override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(size_t) override { return ++depth_ > 1; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(std::string& name) override {
    if (depth_ == 1) key_ = name;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  const std::vector<std::pair<std::string, double>>& values() const { return values_; }

 private:
  bool Add(double value) {
    if (depth_ == 1) values_.emplace_back(key_, value);
    return depth_ > 0;
  }

  int depth_ = 0;
  std::string key_;
  std::vector<std::pair<std::string, double>> values_;
};

// `line` with null for NaN and infinities, which other writers put although JSON has none.
std::string WithoutNans(absl::string_view line) {
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

bool ParseObject(absl::string_view line, Numbers& numbers) {
  const std::string text =
      absl::StrContains(line, "NaN") || absl::StrContains(line, "Infinity") ? WithoutNans(line) : std::string(line);
  return nlohmann::json::sax_parse(text, &numbers);
}

// A line that breaks off ends where the next one begins.
absl::StatusOr<Numbers> ParseLine(absl::string_view line) {
  Numbers numbers;
  if (ParseObject(line, numbers)) return numbers;
  const size_t next = line.rfind('{');
  if (line[0] == '{' && next > 0 && next != absl::string_view::npos) {
    Numbers rest;
    if (ParseObject(line.substr(next), rest)) return rest;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::CHexEscape(line.substr(0, 60)), line.size() > 60 ? "..." : "", "' is no JSON object"));
}

absl::Status AddLine(absl::string_view line, RunMetrics& run) {
  ASSIGN_OR_RETURN(const Numbers numbers, ParseLine(line));
  double step = -1;
  for (const auto& [key, value] : numbers.values()) {
    if (key == "step") step = value;
  }
  if (!(0 <= step && step <= kLargestStep && step == std::floor(step))) {
    return absl::InvalidArgumentError("no \"step\" that is a whole number from 0 to 2^53");
  }
  const auto whole = static_cast<int64_t>(step);
  if (whole < run.last_step) {
    for (auto& [key, curve] : run.curves) curve.DropFrom(whole);
  }
  run.last_step = whole;
  ++run.lines;
  for (const auto& [key, value] : numbers.values()) {
    if (key == "step") continue;
    if (run.curves.size() == kMaxKeys && !run.curves.contains(key)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", absl::CHexEscape(key), "' is one key more than the ", kMaxKeys, " that can be plotted"));
    }
    run.curves[key].Add(whole, value);
  }
  return absl::OkStatus();
}

}  // namespace

void Column::Append(const Column& next) {
  last_step = next.last_step;
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
  // Of the column that the step lies in, what came before it is kept.
  auto first = columns_.lower_bound(step >> shift_);
  if (first != columns_.end() && first->second.first_step < step) ++first;
  columns_.erase(first, columns_.end());
}

void Curve::Coarsen(int64_t width) {
  while (this->width() < width) Double();
}

Column Curve::Total() const {
  Column total;
  for (const auto& [number, column] : columns_) {
    if (column.count == 0) continue;
    if (total.count == 0) total.first_step = column.first_step;
    total.Append(column);
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

absl::StatusOr<RunMetrics> ParseRunMetrics(std::istream& in, absl::string_view name) {
  RunMetrics run{.name = std::string(name)};
  std::vector<char> buffer(kLongestLine + 1);
  for (int64_t number = 1; in.good(); ++number) {
    in.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    if (in.bad()) return absl::UnavailableError(absl::StrCat(name, ": cannot be read to its end"));
    const bool complete = in.good();
    absl::string_view line(buffer.data(), static_cast<size_t>(in.gcount()) - (complete ? 1 : 0));
    absl::Status status;
    if (in.fail() && !in.eof()) {
      status = absl::InvalidArgumentError("the line has more than 1 MiB");
    } else if (line = absl::StripAsciiWhitespace(line); !line.empty()) {
      status = AddLine(line, run);
    }
    if (status.ok()) continue;
    const bool being_written = in.eof() && line.front() == '{' && line.back() != '}';
    if (being_written) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", number, ": ", status.message(), "; expected a line as {\"step\": 10, \"loss\": 2.1}"));
  }
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
  std::ifstream in(file, std::ios::binary);
  if (!in) return absl::UnavailableError(absl::StrCat(file.string(), ": ", std::strerror(errno)));
  ASSIGN_OR_RETURN(RunMetrics run, ParseRunMetrics(in, file.string()));
  const fs::path whole = fs::weakly_canonical(file, error);
  run.name = (whole.filename() == kMetricsFile ? whole.parent_path().filename() : whole.stem()).string();
  return run;
}

}  // namespace belfry::trainers
