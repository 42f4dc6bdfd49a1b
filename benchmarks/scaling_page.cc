#include "benchmarks/scaling_page.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "benchmarks/report.h"
#include "framework/base/status.h"
#include "framework/io/file.h"
#include "trainers/plots/plots.h"

namespace belfry::benchmarks {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kBarWidth = 0.012;  // as a part of the axis

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

// "1.87 [1.8 .. 1.93], 93% of ideal".
std::string PointText(int64_t devices, const Point& point) {
  std::string text = ShortNumber(point.speed_up);
  if (point.min < point.max) {
    absl::StrAppend(&text, " [", ShortNumber(point.min), " .. ", ShortNumber(point.max), "]");
  }
  return absl::StrFormat("%s, %.0f%% of ideal", text, 100 * point.speed_up / static_cast<double>(devices));
}

// Adds a line and, where rounds differ, their spread as faint bars. Those of several curves are beside each other.
void AddCurve(const Curve& curve, size_t run, int64_t most, Json& datasets) {
  Json line = Json::array(), bars = Json::array();
  for (const auto& [devices, point] : curve.points) {
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

Json Table(const std::vector<Curve>& curves) {
  std::set<int64_t> counts;
  for (const Curve& curve : curves) {
    for (const auto& [devices, point] : curve.points) {
      if (1 < devices) counts.insert(devices);
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

}  // namespace

std::string ScalingPage(const Json& report) {
  const std::vector<Curve> curves = MeasuredCurves(report);
  int64_t most = 1;
  for (const Curve& curve : curves) most = std::max(most, curve.points.rbegin()->first);
  Json datasets = Json::array(), runs = Json::array(), charts = Json::array();
  for (size_t run = 0; run < curves.size(); ++run) {
    runs.push_back({{"name", curves[run].name}});
    AddCurve(curves[run], run, most, datasets);
  }
  const Json ideal = {{1, 1, "1"}, {most, most, absl::StrCat(most)}};
  datasets.push_back({{"label", "ideal"}, {"dash", 1}, {"borderWidth", 1.5}, {"pointRadius", 0}, {"data", ideal}});
  const Json x = {{"title", {{"text", "devices"}}}, {"beginAtZero", false}, {"ticks", {{"precision", 0}}}};
  const Json y = {{"title", {{"text", "speed-up over one"}}}, {"beginAtZero", true}};
  if (most > 1) charts.push_back({{"title", "Speed-up"}, {"x", x}, {"y", y}, {"datasets", datasets}});
  return trainers::Page(
      {{"title", "Scaling"},
       {"notes",
        {absl::StrCat(report.value("title", ""), " (", report.value("machine", ""), "; ", report.value("date", ""),
                      ")"),
         "strong: one batch shared by all devices; weak: that batch for each; apart: independent programs, "
         "the limit of the machine; bars: from the slowest to the fastest round"}},
       {"runs", runs},
       {"charts", charts},
       {"table", Table(curves)}});
}

absl::StatusOr<std::string> WriteScalingPage(const Json& report, const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / "scaling.html").string();
  RETURN_IF_ERROR(io::WriteFile(path, ScalingPage(report)));
  return path;
}

}  // namespace belfry::benchmarks
