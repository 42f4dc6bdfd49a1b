#include "trainers/plots/plot_svg.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "trainers/plots/plot_scale.h"

namespace belfry::trainers {
namespace {

constexpr size_t kFewValues = 40;
constexpr int kXTicks = 6, kYTicks = 5;

struct Point {
  double x = 0, y = 0;
};
using Points = std::vector<Point>;

struct Plot {
  Scale x, y;

  Point At(double step, double value) const {
    return {kPlotLeft + x.Place(step) * (kPlotRight - kPlotLeft),
            kPlotBottom - y.Place(value) * (kPlotBottom - kPlotTop)};
  }
};

std::string Text(Point point) { return absl::StrFormat("%.1f,%.1f", point.x, point.y); }

double Middle(const Column& column) {
  return (static_cast<double>(column.first_step) + static_cast<double>(column.last_step)) / 2;
}

// A column that an axis cannot show is a gap on it.
std::vector<Column> Shown(const PlotLine& line, PlotAxis axis) {
  std::vector<Column> columns = line.columns;
  for (Column& column : columns) {
    if (axis == PlotAxis::kLogarithmic && column.count > 0 && column.min <= 0) column.count = 0;
  }
  return columns;
}

Scale ScaleOf(const std::vector<std::vector<Column>>& lines, PlotAxis axis) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const std::vector<Column>& columns : lines) {
    for (const Column& column : columns) {
      if (column.count == 0) continue;
      low = std::min(low, column.min), high = std::max(high, column.max);
    }
  }
  if (low > high) low = 1, high = 1;
  if (axis == PlotAxis::kLogarithmic) return LogScale(low, high);
  return axis == PlotAxis::kFromZero ? RoundScale(std::min(low, 0.0), std::max(high, 0.0)) : RoundScale(low, high);
}

StepRange StepsOf(const std::vector<const std::vector<Column>*>& lines) {
  double first = std::numeric_limits<double>::infinity(), last = -first;
  for (const std::vector<Column>* columns : lines) {
    if (columns->empty()) continue;
    first = std::min(first, static_cast<double>(columns->front().first_step));
    last = std::max(last, static_cast<double>(columns->back().last_step));
  }
  return first > last ? StepRange{} : StepRange{first, last};
}

std::string DrawAxes(const Plot& plot, bool percent) {
  std::string svg;
  for (double tick : Ticks(plot.y, kYTicks)) {
    const double y = plot.At(plot.x.low, tick).y;
    absl::StrAppendFormat(&svg, "<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\"/>", kPlotLeft,
                          kPlotRight, y, y);
    absl::StrAppendFormat(&svg, "<text class=\"tick\" text-anchor=\"end\" x=\"%g\" y=\"%.1f\">%s</text>\n",
                          kPlotLeft - 6, y + 4, percent ? absl::StrCat(TickText(100 * tick), "%") : TickText(tick));
  }
  for (double tick : Ticks(plot.x, kXTicks)) {
    absl::StrAppendFormat(&svg, "<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%g\">%s</text>\n",
                          plot.At(tick, plot.y.low).x, kPlotBottom + 18, TickText(tick));
  }
  absl::StrAppendFormat(&svg, "<line class=\"axis\" x1=\"%g\" x2=\"%g\" y1=\"%g\" y2=\"%g\"/>", kPlotLeft, kPlotRight,
                        kPlotBottom, kPlotBottom);
  absl::StrAppendFormat(&svg, "<text class=\"tick\" text-anchor=\"end\" x=\"%g\" y=\"%g\">step</text>\n", kPlotRight,
                        kPlotHeight - 4);
  return svg;
}

// Runs of columns that hold values.
std::vector<std::vector<Column>> Pieces(const std::vector<Column>& columns) {
  std::vector<std::vector<Column>> pieces(1);
  for (const Column& column : columns) {
    if (column.count > 0) {
      pieces.back().push_back(column);
    } else if (!pieces.back().empty()) {
      pieces.emplace_back();
    }
  }
  if (pieces.back().empty()) pieces.pop_back();
  return pieces;
}

Points Raw(const std::vector<Column>& piece, const Plot& plot) {
  Points points;
  for (const Column& column : piece) {
    const bool rises = column.min_step <= column.max_step;
    points.push_back(plot.At(Middle(column), rises ? column.min : column.max));
    if (column.min != column.max) points.push_back(plot.At(Middle(column), rises ? column.max : column.min));
  }
  return points;
}

Points Smooth(const std::vector<Column>& piece, const Plot& plot) {
  std::vector<double> sums = {0}, counts = {0};
  for (const Column& column : piece) {
    sums.push_back(sums.back() + column.sum);
    counts.push_back(counts.back() + static_cast<double>(column.count));
  }
  const size_t reach = piece.size() / 50;
  Points points;
  for (size_t i = 0; i < piece.size(); ++i) {
    const size_t begin = i - std::min(reach, i), end = std::min(i + reach + 1, piece.size());
    const double mean = (sums[end] - sums[begin]) / (counts[end] - counts[begin]);
    points.push_back(plot.At(Middle(piece[i]), mean));
  }
  return points;
}

std::string Polyline(absl::string_view css_class, const Points& points) {
  std::string svg = absl::StrCat("<polyline class=\"", css_class, "\" points=\"");
  for (const Point& point : points) absl::StrAppend(&svg, Text(point), " ");
  svg.back() = '"';
  return absl::StrCat(svg, "/>\n");
}

std::string Circle(const Column& column, const PlotLine& line, const Plot& plot) {
  const Point point = plot.At(Middle(column), column.mean());
  return absl::StrFormat("<circle r=\"2.5\" cx=\"%.1f\" cy=\"%.1f\"><title>%s, step %s: %.6g</title></circle>\n",
                         point.x, point.y, EscapeHtml(line.label), absl::StrCat(column.last_step), column.mean());
}

std::string DrawLine(const PlotLine& line, const std::vector<Column>& columns, const Plot& plot) {
  std::string svg = absl::StrFormat("<g class=\"line run%d dash%d\">\n", line.run, line.dash);
  for (const std::vector<Column>& piece : Pieces(columns)) {
    const bool few = piece.size() <= kFewValues;
    if (!few) absl::StrAppend(&svg, Polyline("raw", Raw(piece, plot)));
    if (piece.size() > 1) absl::StrAppend(&svg, Polyline("smooth", Smooth(piece, plot)));
    if (!few) continue;
    for (const Column& column : piece) absl::StrAppend(&svg, Circle(column, line, plot));
  }
  return absl::StrCat(svg, "</g>\n");
}

std::string Svg(absl::string_view title, absl::string_view inside) {
  return absl::StrFormat("<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n%s</svg>\n", kPlotWidth,
                         kPlotHeight, EscapeHtml(title), inside);
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

bool HasPositive(const Chart& chart) {
  return std::any_of(chart.lines.begin(), chart.lines.end(), [](const PlotLine& line) {
    return std::any_of(line.columns.begin(), line.columns.end(),
                       [](const Column& column) { return column.count > 0 && column.min > 0; });
  });
}

StepRange StepsOf(const Chart& chart) {
  std::vector<const std::vector<Column>*> lines;
  for (const PlotLine& line : chart.lines) lines.push_back(&line.columns);
  return StepsOf(lines);
}

StepRange StepsOf(const ShareChart& chart) {
  std::vector<const std::vector<Column>*> lines;
  for (const std::vector<Column>& part : chart.parts) lines.push_back(&part);
  return StepsOf(lines);
}

std::string DrawChart(const Chart& chart, PlotAxis axis) {
  std::vector<std::vector<Column>> shown;
  for (const PlotLine& line : chart.lines) shown.push_back(Shown(line, axis));
  const StepRange steps = StepsOf(chart);
  const Plot plot{ExactScale(steps.first, steps.last), ScaleOf(shown, axis)};
  std::string svg = DrawAxes(plot, /*percent=*/false);
  for (size_t i = 0; i < shown.size(); ++i) absl::StrAppend(&svg, DrawLine(chart.lines[i], shown[i], plot));
  return Svg(chart.title, svg);
}

std::string DrawShares(const ShareChart& chart) {
  const StepRange steps = StepsOf(chart);
  const Plot plot{ExactScale(steps.first, steps.last), {0, 1}};
  const size_t columns = chart.parts.empty() ? 0 : chart.parts[0].size();
  std::vector<double> total(columns, 0), below(columns, 0);
  for (const std::vector<Column>& part : chart.parts) {
    for (size_t i = 0; i < columns; ++i) total[i] += std::max(part[i].sum, 0.0);
  }
  std::string svg = absl::StrCat("<g class=\"shares run", chart.run, "\">\n");
  for (size_t p = 0; p < chart.parts.size(); ++p) {
    std::string path;
    // A column stands for the time since the one before it.
    double before = plot.x.low;
    for (size_t i = 0; i < columns; ++i) {
      const Column& column = chart.parts[p][i];
      const double share = total[i] > 0 && std::isfinite(total[i]) ? std::max(column.sum, 0.0) / total[i] : 0;
      const Point low = plot.At(before, below[i]);
      const Point high = plot.At(columns == 1 ? plot.x.high : static_cast<double>(column.last_step), below[i] + share);
      if (share > 0) absl::StrAppendFormat(&path, "M%sH%.1fV%.1fH%.1fz", Text(low), high.x, high.y, low.x);
      below[i] += share;
      before = static_cast<double>(column.last_step);
    }
    absl::StrAppendFormat(&svg, "<path class=\"part%d\" d=\"%s\"><title>%s</title></path>\n", p, path,
                          EscapeHtml(chart.names[p]));
  }
  return Svg(chart.title, absl::StrCat(svg, "</g>\n", DrawAxes(plot, /*percent=*/true)));
}

}  // namespace belfry::trainers
