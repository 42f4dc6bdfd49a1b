#include "trainers/plots/plot_page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "spdlog/fmt/fmt.h"
#include "trainers/plots/page.h"

namespace belfry::trainers {
namespace {

using Json = nlohmann::ordered_json;                  // writes NaN, a gap, as null
using Keys = std::set<std::pair<bool, std::string>>;  // sorted, but main ones first, with false

constexpr absl::string_view kSecondsPrefix = "seconds_", kRateSuffix = "_per_second";
constexpr absl::string_view kCrossEntropy = "cross_entropy";
constexpr size_t kMaxShareColumns = 200;  // so that each is wide enough to be seen

enum class Kind { kLoss, kTotalLoss, kAccuracy, kLearningRate, kRate, kSeconds, kOther };

Kind KindOf(absl::string_view key) {
  if (absl::StartsWith(key, kSecondsPrefix)) return Kind::kSeconds;
  if (absl::EndsWith(key, kRateSuffix)) return Kind::kRate;
  if (absl::StrContains(key, "learning_rate")) return Kind::kLearningRate;
  if (absl::StrContains(key, "accuracy") || absl::StrContains(key, "top_")) return Kind::kAccuracy;
  if (absl::EndsWith(key, "loss") || absl::EndsWith(key, "_error") || absl::EndsWith(key, kCrossEntropy)) {
    return Kind::kLoss;
  }
  return Kind::kOther;
}

// The loss of a run that logs its cross-entropy, too, includes other terms, such as weight decay, that no test loss
// has.
Kind KindOf(absl::string_view key, const RunMetrics& run) {
  if (key == "loss" && run.curves.contains(std::string(kCrossEntropy))) return Kind::kTotalLoss;
  return KindOf(key);
}

// "images/s" for images_per_second.
std::string RateUnit(absl::string_view key) {
  const absl::string_view counted = absl::StripSuffix(key, kRateSuffix);
  return absl::StrCat(counted.empty() ? "examples" : counted, "/s");
}

// Chart.js hangs on axes with denormals, or with a range that overflows.
double Drawable(double value) { return std::abs(value) < 1e-100 ? 0 : std::clamp(value, -1e100, 1e100); }

void AddCells(const std::string& key, const Curve& curve, size_t run, Json& table) {
  const Kind kind = KindOf(key);
  Column total;
  for (const auto& [number, column] : curve.columns()) {
    // A run may log a rate of 0 before it has measured one.
    if (kind != Kind::kRate || column.max > 0) total.Append(column);
  }
  if (total.count == 0 || kind == Kind::kLearningRate) return;
  const bool rate = kind == Kind::kRate;
  table[rate ? "mean " + key : key][run] = fmt::format("{:.5g}", rate ? total.mean() : total.last);
  if (kind == Kind::kLoss) table["best " + key][run] = fmt::format("{:.5g} at {}", total.min, total.min_step);
  if (kind == Kind::kAccuracy) table["best " + key][run] = fmt::format("{:.5g} at {}", total.max, total.max_step);
}

// Adds `line` through the means over a fiftieth of the curve to either side, with points where there are few or where
// no neighbour makes a line of them; and faintly, unless there are few, a line through the columns' ranges.
void AddCurve(const Curve& curve, Json line, Json& datasets) {
  const std::map<int64_t, Column>& columns = curve.columns();
  const bool few = columns.size() <= 40;
  const int64_t reach = few ? 0 : (columns.rbegin()->first - columns.begin()->first) / 50;
  Json means = Json::array(), ranges = Json::array(), radii = Json::array();
  for (const auto& [number, column] : columns) {
    const double mean = column.count == 0 ? NAN : curve.Total(number - reach, number + reach).mean();
    means.push_back({column.last_step, Drawable(mean), fmt::format("{:.6g}", column.mean())});
    radii.push_back(few || curve.IsLone(number) ? 2.5 : 0);
    ranges.push_back({column.last_step, Drawable(column.min)});
    if (column.min < column.max) ranges.push_back({column.last_step, Drawable(column.max)});
  }
  line.update({{"data", means}, {"pointRadius", radii}});
  datasets.push_back(line);
  line.update({{"data", ranges}, {"pointRadius", 0}, {"borderWidth", 1}, {"faint", true}});
  if (!few) datasets.push_back(line);
}

// Adds a chart of `keys` with all runs in which they are of that kind, and their cells of the table.
void AddChart(absl::string_view title, Kind kind, Json y, const Keys& keys, const std::vector<RunMetrics>& runs,
              Json& page) {
  Json datasets;
  bool positive = false;
  for (size_t run = 0; run < runs.size(); ++run) {
    size_t place = keys.empty() || keys.begin()->first ? 0 : 1;
    for (const auto& [later, key] : keys) {
      Json line = {{"run", run}, {"dash", later ? place++ : 0}, {"borderWidth", 2}};
      const auto found = runs[run].curves.find(key);
      if (found == runs[run].curves.end() || KindOf(key, runs[run]) != kind) continue;
      line["label"] = runs.size() == 1 ? key : absl::StrCat(runs[run].name, ", ", key);
      AddCurve(found->second, line, datasets);
      AddCells(key, found->second, run, page["table"]);
      positive = positive || found->second.Total().max > 0;
    }
  }
  if (!positive) y.erase("type");
  if (!datasets.empty()) page["charts"].push_back({{"title", title}, {"y", y}, {"datasets", datasets}});
}

// Adds a chart of a run's time: its parts in percent, stacked. Chart.js draws lower areas over higher ones.
void AddShares(const Keys& keys, const RunMetrics& metrics, size_t run, Json& page) {
  Curve whole = metrics.Sum(kSecondsPrefix);
  while (whole.columns().size() > kMaxShareColumns) whole.Coarsen(2 * whole.width());
  Json datasets;
  for (const auto& [later, key] : keys) {
    if (!metrics.curves.contains(key)) continue;
    Curve part = metrics.curves.at(key);
    part.Coarsen(whole.width());
    Json data = Json::array();
    for (const auto& [number, column] : whole.columns()) {
      const double share = column.sum > 0 ? 100 * part.Total(number, number).sum / column.sum : NAN;
      data.push_back({column.last_step, Drawable(share), fmt::format("{:.3g}%", share)});
    }
    const std::string label = key.substr(kSecondsPrefix.size());
    const double share = 100 * part.Total().sum / whole.Total().sum;
    if (std::isfinite(share)) page["table"]["time: " + label][run] = absl::StrFormat("%.1f%%", share);
    datasets.push_back({{"run", run}, {"label", label}, {"fill", true}, {"stepped", "after"}, {"borderWidth", 0}});
    datasets.back().update({{"data", data}, {"pointRadius", data.size() > 1 ? 0 : 4}});
  }
  const Json y = {{"stacked", true}, {"min", 0}, {"max", 100}, {"title", {{"text", "% of the time"}}}};
  const std::string title = "Where the time went: " + metrics.name;
  if (!datasets.empty()) page["charts"].push_back({{"title", title}, {"y", y}, {"datasets", datasets}});
}

}  // namespace

std::string PlotPage(const std::vector<RunMetrics>& runs) {
  Json page = {
      {"title", "Training runs"}, {"runs", Json::array()}, {"table", Json::object()}, {"charts", Json::array()}};
  std::map<Kind, Keys> keys;
  for (const RunMetrics& run : runs) {
    page["runs"].push_back({{"name", run.name}, {"last_step", run.lines == 0 ? Json() : Json(run.last_step)}});
    for (const auto& [key, curve] : run.curves) {
      keys[KindOf(key, run)].emplace(key != "loss" && key != kCrossEntropy && key != "seconds_step", key);
    }
  }
  const bool total = keys.contains(Kind::kTotalLoss);
  AddChart(total ? "Cross-entropy" : "Loss", Kind::kLoss, {{"type", "logarithmic"}}, keys[Kind::kLoss], runs, page);
  AddChart("Total loss", Kind::kTotalLoss, {{"type", "logarithmic"}}, keys[Kind::kTotalLoss], runs, page);
  AddChart("Accuracy", Kind::kAccuracy, Json::object(), keys[Kind::kAccuracy], runs, page);
  AddChart("Learning rate", Kind::kLearningRate, {{"beginAtZero", true}}, keys[Kind::kLearningRate], runs, page);
  for (const auto& key : keys[Kind::kRate]) {
    const Json y = {{"beginAtZero", true}, {"title", {{"text", RateUnit(key.second)}}}};
    AddChart("Throughput, " + RateUnit(key.second), Kind::kRate, y, {key}, runs, page);
  }
  for (const auto& key : keys[Kind::kOther]) AddChart(key.second, Kind::kOther, Json::object(), {key}, runs, page);
  for (size_t run = 0; run < runs.size(); ++run) AddShares(keys[Kind::kSeconds], runs[run], run, page);
  return Page(page);
}

}  // namespace belfry::trainers
