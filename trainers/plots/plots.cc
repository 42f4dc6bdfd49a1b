#include "trainers/plots/plots.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/io/file.h"
#include "framework/io/json_impl.h"

namespace belfry::trainers {

// page.html with Chart.js, from a source file that CMake writes.
extern const char kPageHtml[];

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;  // writes NaN as null
using Point = RunMetrics::Point;

constexpr size_t kMaxLineBytes = 1 << 20, kMaxKeys = 256, kMaxColumns = 1024;
constexpr double kMaxStep = 9007199254740992;  // 2^53
constexpr char kMetricsFile[] = "metrics.jsonl";

// A JSON value, discarded if the text is none. NaN and infinities, which other writers emit although JSON has no such
// numbers, are null.
nlohmann::json Parse(absl::string_view text) {
  nlohmann::json value = io::ParseJson(text);
  if (!value.is_discarded()) return value;
  std::vector<std::pair<std::string, std::string>> nulls;
  for (const char* before : {" ", ":", ",", "["}) {
    for (const char* word : {"NaN", "Infinity", "-Infinity"}) {
      nulls.emplace_back(absl::StrCat(before, word), absl::StrCat(before, "null"));
    }
  }
  return io::ParseJson(absl::StrReplaceAll(text, nulls));
}

absl::Status AddLine(absl::string_view line, RunMetrics& run) {
  nlohmann::json object = Parse(line);
  // A line that breaks off ends where the next one begins.
  if (!object.is_object() && line[0] == '{') object = Parse(line.substr(line.rfind('{')));
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape(line.substr(0, 60)),
                                                   line.size() > 60 ? "..." : "", "' is not a JSON object"));
  }
  const double number = object.contains("step") && object["step"].is_number() ? object["step"].get<double>() : -1;
  if (!(0 <= number && number <= kMaxStep && number == std::floor(number))) {
    return absl::InvalidArgumentError("\"step\" is not a whole number from 0 to 2^53");
  }
  object.erase("step");
  const auto step = static_cast<int64_t>(number);
  for (auto& [key, points] : run.curves) {
    while (step < run.last_step && !points.empty() && points.back().step >= step) points.pop_back();
  }
  run.last_step = step;
  ++run.lines;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_number() && !value.is_null()) continue;
    if (run.curves.size() == kMaxKeys && !run.curves.contains(key)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", absl::CHexEscape(key), "' exceeds the limit of ", kMaxKeys, " keys"));
    }
    run.curves[key].push_back({step, value.is_null() ? NAN : value.get<double>()});
  }
  return absl::OkStatus();
}

absl::StatusOr<RunMetrics> ReadRun(const std::string& path) {
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? fs::path(path) / kMetricsFile : fs::path(path);
  const absl::StatusOr<std::string> text = io::ReadFile(file.string());
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(
        absl::StrCat(file.string(), ": no such file; a run writes it with --train_dir=DIR or --metrics_file=FILE"));
  }
  RETURN_IF_ERROR(text.status());
  ASSIGN_OR_RETURN(RunMetrics run, ParseRunMetrics(*text, file.string()));
  if (run.lines == 0) return absl::FailedPreconditionError(absl::StrCat(file.string(), ": no line of metrics yet"));
  const fs::path whole = fs::weakly_canonical(file, error);
  run.name = (whole.filename() == kMetricsFile ? whole.parent_path().filename() : whole.stem()).string();
  return run;
}

// The values of adjacent steps, plotted as one.
struct Column {
  int64_t last_step = 0, count = 0;  // of finite values; 0: a gap
  double sum = 0, min = NAN, max = NAN;
};

std::vector<Column> ColumnsOf(const std::vector<Point>& points, int64_t width) {
  std::vector<Column> columns;
  for (const auto& [step, value] : points) {
    if (columns.empty() || columns.back().last_step / width != step / width) columns.emplace_back();
    Column& column = columns.back();
    column.last_step = step;
    if (!std::isfinite(value)) continue;
    ++column.count;
    column.sum = std::clamp(column.sum + value, -DBL_MAX, DBL_MAX);
    column.min = std::fmin(column.min, value);
    column.max = std::fmax(column.max, value);
  }
  return columns;
}

// The curve as the page's script takes it: in columns of `width` steps; and its last, least and greatest point, null if
// it has no value.
Json CurveOf(const std::vector<Point>& points) {
  int64_t width = 1;
  std::vector<Column> columns = ColumnsOf(points, width);
  while (columns.size() > kMaxColumns) columns = ColumnsOf(points, width *= 2);
  const Point *last = nullptr, *least = nullptr, *greatest = nullptr;
  for (const Point& point : points) {
    if (!std::isfinite(point.value)) continue;
    last = &point;
    if (least == nullptr || point.value < least->value) least = &point;
    if (greatest == nullptr || point.value > greatest->value) greatest = &point;
  }
  Json curve = {{"width", width}, {"columns", Json::array()}};
  for (const Column& column : columns) {
    curve["columns"].push_back({column.last_step, column.count, column.sum, column.min, column.max});
  }
  for (const auto& [name, point] : {std::pair("last", last), {"least", least}, {"greatest", greatest}}) {
    curve[name] = point == nullptr ? Json() : Json{{"step", point->step}, {"value", point->value}};
  }
  return curve;
}

}  // namespace

absl::StatusOr<RunMetrics> ParseRunMetrics(absl::string_view text, absl::string_view name) {
  RunMetrics run{.name = std::string(name)};
  absl::Status torn;  // a line that breaks off, until another follows
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const bool too_long = line.size() > kMaxLineBytes;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() && !too_long) continue;
    RETURN_IF_ERROR(torn);
    absl::Status status = too_long ? absl::InvalidArgumentError("the line is longer than 1 MiB") : AddLine(line, run);
    if (status.ok()) continue;
    status = absl::InvalidArgumentError(absl::StrCat(name, ":", number, ": ", status.message(),
                                                     "; expected a line such as {\"step\": 10, \"loss\": 2.1}"));
    if (too_long || line.front() != '{' || line.back() == '}') return status;
    torn = status;
  }
  run.torn = !torn.ok();
  return run;
}

absl::StatusOr<std::vector<RunMetrics>> ReadRunMetrics(const std::vector<std::string>& paths) {
  std::vector<RunMetrics> runs;
  std::map<std::string, int> uses;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(runs.emplace_back(), ReadRun(path));
    ++uses[runs.back().name];
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    if (uses[runs[i].name] > 1) runs[i].name = paths[i];
  }
  return runs;
}

std::string Page(const Json& data) {
  const std::string text = data.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  // A name may hold what would end the script.
  return absl::StrReplaceAll(kPageHtml, {{"@DATA@", absl::StrReplaceAll(text, {{"<", "\\u003c"}})}});
}

std::string PlotPage(const std::vector<RunMetrics>& runs) {
  Json page = {{"title", "Training runs"}, {"runs", Json::array()}};
  for (const RunMetrics& run : runs) {
    Json curves = Json::object();
    for (const auto& [key, points] : run.curves) curves[key] = CurveOf(points);
    page["runs"].push_back({{"name", run.name},
                            {"last_step", run.lines == 0 ? Json() : Json(run.last_step)},
                            {"curves", std::move(curves)}});
  }
  return Page(page);
}

}  // namespace belfry::trainers
