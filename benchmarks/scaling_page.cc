#include "benchmarks/scaling_page.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "benchmarks/report.h"
#include "framework/base/status.h"
#include "framework/io/file.h"
#include "trainers/plots/plots.h"

namespace belfry::benchmarks {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kBarWidth = 0.012;  // as a part of the axis
constexpr absl::string_view kPrediction = "Prediction for ";

struct Point {
  double speed_up = 1, min = 1, max = 1, images_per_second = 0;
};
struct Curve {
  std::string name;
  std::map<int64_t, Point> points;  // by number of devices
};

// A curve for each program on several devices, in the order of the report. All begin at one device.
std::vector<Curve> MeasuredCurves(const Json& report) {
  std::vector<Curve> curves;
  for (const Json& row : report.value("rows", Json::array())) {
    const std::string program = row.value("program", "");
    const auto devices = row.value("devices", int64_t{0});
    if (devices < 2) continue;
    auto curve = std::find_if(curves.begin(), curves.end(), [&](const Curve& other) { return other.name == program; });
    if (curve == curves.end()) curve = curves.insert(curve, {.name = program, .points = {{1, Point()}}});
    const double speed_up = row.value("speed_up", 0.0);
    curve->points[devices] = {speed_up, row.value("speed_up_min", speed_up), row.value("speed_up_max", speed_up),
                              row.value("images/s", 0.0)};
  }
  return curves;
}

Curve PredictedCurve(const Json& report) {
  const std::string title = report.value("title", "");
  Curve curve{.name = absl::StrCat("predicted: ", absl::StripPrefix(title.substr(0, title.find(": ")), kPrediction))};
  for (const Json& row : report.value("rows", Json::array())) {
    const auto processes = row.value("processes", int64_t{1});
    const double speed_up = row.value("efficiency", 0.0) * static_cast<double>(processes);
    curve.points[processes] = {speed_up, speed_up, speed_up, row.value("images/s", 0.0)};
  }
  return curve;
}

// "1.87 [1.8 .. 1.93], 93% of ideal".
std::string PointText(int64_t devices, const Point& point) {
  std::string text = ShortNumber(point.speed_up);
  if (point.min < point.max) {
    absl::StrAppend(&text, " [", ShortNumber(point.min), " .. ", ShortNumber(point.max), "]");
  }
  return absl::StrFormat("%s, %.0f%% of ideal", text, 100 * point.speed_up / static_cast<double>(devices));
}

// Adds a line up to `most` devices and, where rounds differ, their spread as faint bars. Those of several curves are
// beside each other.
void AddCurve(const Curve& curve, size_t run, int64_t most, Json& datasets) {
  Json line = Json::array(), bars = Json::array();
  for (const auto& [devices, point] : curve.points) {
    if (devices > most) break;
    std::string text = PointText(devices, point);
    if (point.images_per_second > 0) absl::StrAppend(&text, ", ", ShortNumber(point.images_per_second), " images/s");
    line.push_back({devices, point.speed_up, text});
    if (point.min == point.max) continue;
    const double x =
        static_cast<double>(devices) - kBarWidth * static_cast<double>(run) * static_cast<double>(most - 1);
    for (const Json& y : {Json(point.min), Json(point.max), Json()}) bars.push_back({x, y});
  }
  datasets.push_back({{"run", run}, {"label", curve.name}, {"borderWidth", 2}, {"pointRadius", 3.5}, {"data", line}});
  if (bars.empty()) return;
  datasets.push_back({{"run", run}, {"label", curve.name}, {"faint", true}, {"borderWidth", 6}, {"pointRadius", 0}});
  datasets.back()["data"] = bars;
}

Json Axis(const char* title, bool logarithmic) {
  Json axis = {{"title", {{"text", title}}}};
  axis[logarithmic ? "type" : "beginAtZero"] = logarithmic ? Json("logarithmic") : Json(true);
  return axis;
}

Json Chart(const std::string& title, const char* x, bool logarithmic, int64_t most, Json datasets) {
  const Json ideal = {{1, 1, "1"}, {most, most, absl::StrCat(most)}};
  datasets.push_back({{"label", "ideal"}, {"dash", 1}, {"borderWidth", 1.5}, {"pointRadius", 0}, {"data", ideal}});
  Json counts = Axis(x, logarithmic);
  counts["ticks"] = {{"precision", 0}};
  counts["beginAtZero"] = false;
  return {{"title", title},
          {"x", counts},
          {"y", Axis("speed-up over one", logarithmic)},
          {"datasets", std::move(datasets)}};
}

// Up to `most` devices.
Json Table(const std::vector<Curve>& curves, int64_t most) {
  std::set<int64_t> counts;
  for (const Curve& curve : curves) {
    for (const auto& [devices, point] : curve.points) {
      if (1 < devices && devices <= most) counts.insert(devices);
    }
  }
  Json table = Json::object();
  for (const int64_t count : counts) {
    Json& cells = table[absl::StrCat("on ", count)];
    for (const Curve& curve : curves) {
      const auto point = curve.points.find(count);
      cells.push_back(point == curve.points.end() ? Json() : Json(PointText(count, point->second)));
    }
  }
  return table;
}

std::string Source(const Json& report) {
  return absl::StrCat(report.value("title", ""), " (", report.value("machine", ""), "; ", report.value("date", ""),
                      ")");
}

absl::StatusOr<Json> ReadReport(const std::filesystem::path& path) {
  const absl::StatusOr<std::string> text = io::ReadFile(path.string(), io::kMaxDataBytes);
  if (absl::IsNotFound(text.status())) return Json();
  RETURN_IF_ERROR(text.status());
  Json report = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (report.is_object() && report["rows"].is_array()) return report;
  return absl::DataLossError(absl::StrCat(path.string(), " is not a report of a benchmark; remove it"));
}

}  // namespace

std::string ScalingPage(const Json& measured, const Json& predicted) {
  Json page = {{"title", "Scaling"}, {"notes", Json::array()}, {"runs", Json::array()}, {"charts", Json::array()}};
  std::vector<Curve> curves;
  if (measured.is_object()) {
    page["notes"] = {Source(measured),
                     "strong: one batch shared by all devices; weak: that batch for each; apart: independent programs, "
                     "the limit of the machine; bars: from the slowest to the fastest round"};
    curves = MeasuredCurves(measured);
  }
  int64_t most = 1;
  for (const Curve& curve : curves) most = std::max(most, curve.points.rbegin()->first);
  if (predicted.is_object()) {
    page["notes"].push_back(Source(predicted));
    curves.push_back(PredictedCurve(predicted));
  }
  Json datasets = Json::array();
  for (size_t run = 0; run < curves.size(); ++run) {
    page["runs"].push_back({{"name", curves[run].name}});
    AddCurve(curves[run], run, most, datasets);
  }
  if (most > 1) page["charts"].push_back(Chart("Speed-up", "devices", false, most, datasets));
  if (predicted.is_object() && !curves.back().points.empty()) {
    Json all = Json::array();
    const int64_t last = curves.back().points.rbegin()->first;
    AddCurve(curves.back(), curves.size() - 1, last, all);
    page["charts"].push_back(Chart("Predicted speed-up", "processes", true, last, all));
  }
  page["table"] = Table(curves, most > 1 ? most : std::numeric_limits<int64_t>::max());
  return trainers::Page(page);
}

absl::StatusOr<std::string> WriteScalingPage(const std::string& directory) {
  const std::filesystem::path folder(directory);
  ASSIGN_OR_RETURN(const Json measured, ReadReport(folder / "scaling.json"));
  ASSIGN_OR_RETURN(const Json predicted, ReadReport(folder / "prediction.json"));
  const std::string path = (folder / "scaling.html").string();
  RETURN_IF_ERROR(io::WriteFile(path, ScalingPage(measured, predicted)));
  return path;
}

}  // namespace belfry::benchmarks
