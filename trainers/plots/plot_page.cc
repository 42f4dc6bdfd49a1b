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
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace belfry::trainers {

// page.html with Chart.js, from a source file that CMake writes.
extern const char kPageHtml[];

namespace {

using Json = nlohmann::ordered_json;

constexpr absl::string_view kSecondsPrefix = "seconds_";
constexpr size_t kMaxShareColumns = 200;  // so that each is wide enough to be seen

enum class Kind { kLoss, kAccuracy, kLearningRate, kRate, kSeconds, kOther };

Kind KindOf(absl::string_view key) {
  if (absl::StartsWith(key, kSecondsPrefix)) return Kind::kSeconds;
  if (absl::EndsWith(key, "_per_second")) return Kind::kRate;
  if (absl::StrContains(key, "learning_rate")) return Kind::kLearningRate;
  if (absl::StrContains(key, "accuracy") || absl::StrContains(key, "top_")) return Kind::kAccuracy;
  if (absl::EndsWith(key, "loss") || absl::EndsWith(key, "_error")) return Kind::kLoss;
  return Kind::kOther;
}

// Chart.js hangs on axes with denormals, or with a range that overflows.
double Drawable(double value) { return std::abs(value) < 1e-100 ? 0 : std::clamp(value, -1e100, 1e100); }

// The table's cells for one key of a run: text by heading.
Json CellsOf(const std::string& key, const Curve& curve, const RunMetrics& run) {
  const Kind kind = KindOf(key);
  Column total;
  for (const auto& [number, column] : curve.columns()) {
    // A run may log a rate of 0 before it has measured one.
    if (column.count > 0 && (kind != Kind::kRate || column.max > 0)) total.Append(column);
  }
  if (total.count == 0 || kind == Kind::kLearningRate) return Json::object();
  if (kind == Kind::kRate) return {{"mean " + key, absl::StrFormat("%.5g", total.mean())}};
  if (kind == Kind::kSeconds) {
    double seconds = 0;
    for (const auto& [name, part] : run.curves) seconds += KindOf(name) == Kind::kSeconds ? part.Total().sum : 0;
    return {
        {absl::StrReplaceAll(key, {{kSecondsPrefix, "time: "}}), absl::StrFormat("%.1f%%", 100 * total.sum / seconds)}};
  }
  Json cells = {{key, absl::StrFormat("%.5g", total.last)}};
  if (kind == Kind::kLoss) cells["best " + key] = absl::StrFormat("%.5g at %d", total.min, total.min_step);
  if (kind == Kind::kAccuracy) cells["best " + key] = absl::StrFormat("%.5g at %d", total.max, total.max_step);
  return cells;
}

// The curves of `keys` of the runs [begin, end). A column of a line is [step, mean, min, max], or [step, null] for a
// gap.
Json ChartOf(absl::string_view title, absl::string_view scale, const std::vector<std::string>& keys,
             const std::vector<RunMetrics>& runs, size_t begin, size_t end) {
  Json lines = Json::array();
  bool positive = false;
  for (size_t run = begin; run < end; ++run) {
    for (size_t key = 0; key < keys.size(); ++key) {
      const auto found = runs[run].curves.find(keys[key]);
      if (found == runs[run].curves.end()) continue;
      Json columns = Json::array();
      for (const auto& [number, column] : found->second.columns()) {
        // The same in all curves of one width, so that they can be stacked.
        const int64_t step = std::min((number + 1) * found->second.width() - 1, runs[run].last_step);
        columns.push_back(Json::array({step}));
        if (column.count == 0) columns.back().push_back(nullptr);
        if (column.count == 0) continue;
        for (double value : {column.mean(), column.min, column.max}) columns.back().push_back(Drawable(value));
        positive = positive || column.min > 0;
      }
      const absl::string_view name = absl::StripPrefix(keys[key], kSecondsPrefix);
      const std::string label = end - begin == 1 ? std::string(name) : absl::StrCat(runs[run].name, ", ", name);
      lines.push_back({{"run", run}, {"key", key}, {"label", label}, {"columns", std::move(columns)}});
      lines.back()["cells"] = CellsOf(keys[key], found->second, runs[run]);
    }
  }
  if (scale == "logarithmic" && !positive) scale = "linear";
  return {{"title", title}, {"scale", scale}, {"lines", std::move(lines)}};
}

Json ChartsOf(const std::vector<RunMetrics>& runs) {
  std::set<std::string> all;
  for (const RunMetrics& run : runs) {
    for (const auto& [key, curve] : run.curves) all.insert(key);
  }
  std::map<Kind, std::vector<std::string>> keys;  // sorted, but the main one of its kind first
  for (const std::string& key : all) {
    std::vector<std::string>& same = keys[KindOf(key)];
    same.insert(key == "loss" || key == "seconds_step" ? same.begin() : same.end(), key);
  }
  Json charts = Json::array();
  const auto add = [&](absl::string_view title, absl::string_view scale, const std::vector<std::string>& names) {
    if (!names.empty()) charts.push_back(ChartOf(title, scale, names, runs, 0, runs.size()));
  };
  add("Loss", "logarithmic", keys[Kind::kLoss]);
  add("Accuracy", "linear", keys[Kind::kAccuracy]);
  add("Learning rate", "zero", keys[Kind::kLearningRate]);
  add("Throughput, per second", "zero", keys[Kind::kRate]);
  for (const std::string& key : keys[Kind::kOther]) add(key, "linear", {key});
  for (size_t run = 0; run < runs.size(); ++run) {
    std::vector<RunMetrics> even = runs;
    int64_t width = 1;
    for (auto& [key, curve] : even[run].curves) {
      while (curve.columns().size() > kMaxShareColumns) curve.Coarsen(2 * curve.width());
      width = std::max(width, curve.width());
    }
    for (auto& [key, curve] : even[run].curves) curve.Coarsen(width);
    Json shares = ChartOf("Where the time went: " + runs[run].name, "shares", keys[Kind::kSeconds], even, run, run + 1);
    if (!shares["lines"].empty()) charts.push_back(std::move(shares));
  }
  return charts;
}

}  // namespace

std::string PlotPage(const std::vector<RunMetrics>& runs) {
  Json page = {{"runs", Json::array()}, {"charts", ChartsOf(runs)}};
  for (const RunMetrics& run : runs) {
    page["runs"].push_back({{"name", run.name}, {"last_step", run.lines == 0 ? Json() : Json(run.last_step)}});
  }
  const std::string data = page.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  // A name may hold what would end the script.
  return absl::StrReplaceAll(kPageHtml, {{"@DATA@", absl::StrReplaceAll(data, {{"<", "\\u003c"}})}});
}

}  // namespace belfry::trainers
