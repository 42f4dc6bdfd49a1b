#include "trainers/plots/plot_html.h"

#include <algorithm>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "trainers/plots/plot_scale.h"
#include "trainers/plots/plot_style.h"
#include "trainers/plots/plot_summary.h"
#include "trainers/plots/plot_svg.h"

namespace belfry::trainers {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDashes = 4;
constexpr size_t kMaxShares = 200;  // columns, so that a reader sees each

std::string DataScript(const Json& data) {
  // What would end the script may stand in a name.
  const std::string text = data.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return absl::StrCat("<script type=\"application/json\" class=\"data\">",
                      absl::StrReplaceAll(text, {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}}), "</script>\n");
}

Json DataOf(StepRange steps) {
  const Scale x = ExactScale(steps.first, steps.last);
  return {{"left", kPlotLeft}, {"right", kPlotRight}, {"top", kPlotTop},       {"bottom", kPlotBottom},
          {"first", x.low},    {"last", x.high},      {"lines", Json::array()}};
}

// Six digits are what a reader wants to see.
Json Short(double value) { return Json::parse(absl::StrFormat("%.6g", value), nullptr, /*allow_exceptions=*/false); }

Json DataOf(const Chart& chart) {
  Json data = DataOf(StepsOf(chart));
  for (const PlotLine& line : chart.lines) {
    Json steps = Json::array(), values = Json::array();
    for (const Column& column : line.columns) {
      steps.push_back(column.last_step);
      values.push_back(column.count > 0 ? Short(column.mean()) : Json());
    }
    data["lines"].push_back({{"run", line.run},
                             {"colour", absl::StrCat("run", line.run)},
                             {"label", line.label},
                             {"steps", std::move(steps)},
                             {"values", std::move(values)}});
  }
  return data;
}

Json DataOf(const ShareChart& chart) {
  Json data = DataOf(StepsOf(chart));
  data["unit"] = "%";
  for (size_t p = 0; p < chart.parts.size(); ++p) {
    Json steps = Json::array(), values = Json::array();
    for (size_t i = 0; i < chart.parts[p].size(); ++i) {
      double total = 0;
      for (const std::vector<Column>& part : chart.parts) total += part[i].sum;
      steps.push_back(chart.parts[p][i].last_step);
      values.push_back(total > 0 ? Short(100 * chart.parts[p][i].sum / total) : Json());
    }
    data["lines"].push_back({{"run", chart.run},
                             {"colour", absl::StrCat("part", p)},
                             {"label", chart.names[p]},
                             {"steps", std::move(steps)},
                             {"values", std::move(values)}});
  }
  return data;
}

// The lines of `keys`, each key of all runs with the same dashes.
Chart ChartOf(const std::vector<RunMetrics>& runs, absl::string_view title, const std::vector<std::string>& keys) {
  Chart chart{.title = std::string(title)};
  for (size_t run = 0; run < runs.size(); ++run) {
    for (size_t key = 0; key < keys.size(); ++key) {
      const auto found = runs[run].curves.find(keys[key]);
      if (found == runs[run].curves.end()) continue;
      PlotLine line{.run = static_cast<int>(run), .dash = static_cast<int>(key % kDashes)};
      line.label = runs.size() == 1 ? keys[key] : absl::StrCat(runs[run].name, ", ", keys[key]);
      for (const auto& [number, column] : found->second.columns()) line.columns.push_back(column);
      chart.lines.push_back(std::move(line));
    }
  }
  return chart;
}

std::string DashLegend(const std::vector<std::string>& keys) {
  std::string html;
  for (size_t key = 0; keys.size() > 1 && key < keys.size(); ++key) {
    absl::StrAppendFormat(&html,
                          "<span class=\"key\"><svg viewBox=\"0 0 28 8\"><g class=\"line dash%d\"><line x1=\"0\" "
                          "x2=\"28\" y1=\"4\" y2=\"4\"/></g></svg>%s</span>\n",
                          key % kDashes, EscapeHtml(keys[key]));
  }
  return html;
}

std::string Figure(const Chart& chart, const std::vector<std::string>& keys, PlotAxis axis) {
  const std::string caption = absl::StrCat("<figure>\n<figcaption>", EscapeHtml(chart.title), "</figcaption>\n");
  const std::string rest = absl::StrCat(DataScript(DataOf(chart)), "</figure>\n");
  const auto plot = [&](absl::string_view css_class, PlotAxis kind) {
    return absl::StrCat("<div class=\"plot ", css_class, "\">\n", DrawChart(chart, kind), "</div>\n");
  };
  if (axis != PlotAxis::kLogarithmic) return absl::StrCat(caption, DashLegend(keys), plot("only", axis), rest);
  std::string picks;
  for (absl::string_view kind : {"logarithmic", "linear"}) {
    absl::StrAppendFormat(&picks,
                          "<input type=\"radio\" name=\"loss-axis\" class=\"axis-pick %s\" id=\"loss-%s\"%s/>"
                          "<label for=\"loss-%s\">%s</label>\n",
                          kind, kind, kind == "linear" ? "" : " checked=\"checked\"", kind, kind);
  }
  return absl::StrCat(caption, picks, DashLegend(keys), plot("logarithmic", PlotAxis::kLogarithmic),
                      plot("linear", PlotAxis::kLinear), rest);
}

// The curves of a run's parts of time with their names: the step itself first, which the others stand on.
std::vector<std::pair<std::string, Curve>> TimesOf(const RunMetrics& run) {
  std::vector<std::pair<std::string, Curve>> times;
  int64_t width = 1;
  for (const auto& [key, curve] : run.curves) {
    if (KindOf(key) == MetricKind::kSeconds) times.emplace_back(key.substr(kSecondsPrefix.size()), curve);
  }
  std::stable_partition(times.begin(), times.end(), [](const auto& time) { return time.first == "step"; });
  for (auto& [name, curve] : times) {
    while (curve.columns().size() > kMaxShares) curve.Coarsen(2 * curve.width());
    width = std::max(width, curve.width());
  }
  for (auto& [name, curve] : times) curve.Coarsen(width);
  return times;
}

// Columns of all parts are made to stand for the same steps.
ShareChart SharesOf(const RunMetrics& run, int number) {
  ShareChart chart{.title = absl::StrCat("Where the time went: ", run.name), .run = number};
  const std::vector<std::pair<std::string, Curve>> times = TimesOf(run);
  std::map<int64_t, Column> steps;  // without values
  for (const auto& [name, curve] : times) {
    for (const auto& [place, column] : curve.columns()) {
      Column& all = steps.emplace(place, Column{column.first_step, column.last_step}).first->second;
      all.first_step = std::min(all.first_step, column.first_step);
      all.last_step = std::max(all.last_step, column.last_step);
    }
  }
  for (const auto& [name, curve] : times) {
    chart.names.push_back(name);
    std::vector<Column>& part = chart.parts.emplace_back();
    for (const auto& [place, all] : steps) {
      const auto found = curve.columns().find(place);
      part.push_back(found == curve.columns().end() ? all : found->second);
      part.back().first_step = all.first_step, part.back().last_step = all.last_step;
    }
  }
  return chart;
}

std::string ShareFigure(const ShareChart& chart) {
  std::string legend;
  for (size_t part = 0; part < chart.names.size(); ++part) {
    absl::StrAppendFormat(&legend, "<span class=\"key\"><i class=\"part%d\"></i>%s</span>\n", part,
                          EscapeHtml(chart.names[part]));
  }
  return absl::StrCat("<figure class=\"run", chart.run, "\">\n<figcaption>", EscapeHtml(chart.title), "</figcaption>\n",
                      legend, "<div class=\"plot\">\n", DrawShares(chart), "</div>\n", DataScript(DataOf(chart)),
                      "</figure>\n");
}

std::string Figures(const std::vector<RunMetrics>& runs) {
  std::map<MetricKind, std::vector<std::string>> keys;
  for (const std::string& key : AllKeys(runs)) keys[KindOf(key)].push_back(key);
  std::string html;
  const auto add = [&](MetricKind kind, absl::string_view title, PlotAxis axis) {
    if (keys[kind].empty()) return;
    const Chart chart = ChartOf(runs, title, keys[kind]);
    const bool drawable = axis != PlotAxis::kLogarithmic || HasPositive(chart);
    absl::StrAppend(&html, Figure(chart, keys[kind], drawable ? axis : PlotAxis::kLinear));
  };
  add(MetricKind::kLoss, "Loss", PlotAxis::kLogarithmic);
  add(MetricKind::kAccuracy, "Accuracy", PlotAxis::kLinear);
  add(MetricKind::kLearningRate, "Learning rate", PlotAxis::kFromZero);
  add(MetricKind::kRate, "Throughput, per second", PlotAxis::kFromZero);
  for (const std::string& key : keys[MetricKind::kOther]) {
    absl::StrAppend(&html, Figure(ChartOf(runs, key, {key}), {key}, PlotAxis::kLinear));
  }
  for (size_t run = 0; run < runs.size(); ++run) {
    const ShareChart shares = SharesOf(runs[run], static_cast<int>(run));
    if (!shares.parts.empty()) absl::StrAppend(&html, ShareFigure(shares));
  }
  return html;
}

// The colours of runs and parts, and what is hidden with a run that is not picked.
std::string RunStyle(size_t runs) {
  std::string css;
  for (size_t i = 0; i < std::max<size_t>(runs, kPlotColours); ++i) {
    absl::StrAppendFormat(&css, ".run%d, .part%d { --c: var(--c%d); }\n", i, i, i % kPlotColours);
  }
  for (size_t i = 0; i < runs; ++i) {
    absl::StrAppendFormat(&css, "#run%d:not(:checked) ~ main .run%d { display: none; }\n", i, i);
  }
  return css;
}

}  // namespace

std::string PlotPage(const std::vector<RunMetrics>& runs) {
  std::string picks;
  std::vector<std::string> names;
  for (size_t i = 0; i < runs.size(); ++i) {
    names.push_back(EscapeHtml(runs[i].name));
    absl::StrAppendFormat(&picks,
                          "<input type=\"checkbox\" class=\"pick\" id=\"run%d\" checked=\"checked\"/>"
                          "<label for=\"run%d\" class=\"run%d\">%s</label>\n",
                          i, i, i, names.back());
  }
  const std::string figures = Figures(runs);
  return absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n",
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
                      absl::StrJoin(names, ", "), "</title>\n<style>", kPlotStyle, RunStyle(runs.size()),
                      "</style>\n</head>\n<body>\n<h1>Training runs</h1>\n", picks, SummaryTable(runs),
                      figures.empty() ? "<p>Nothing to plot yet.</p>\n" : "", "<main>\n", figures, "</main>\n<script>",
                      kPlotScript, "</script>\n</body>\n</html>\n");
}

}  // namespace belfry::trainers
