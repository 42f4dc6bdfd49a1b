// Charts of training runs as SVG elements, to stand in a page of PlotPage, whose style sheet gives them their colours.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "trainers/plots/run_metrics.h"

namespace belfry::trainers {

// `text` with what means something in HTML and XML replaced.
std::string EscapeHtml(absl::string_view text);

// One curve of a chart. Elements have the class run<N>, by which the page colours and hides them.
struct PlotLine {
  int run = 0;
  int dash = 0;  // 0 is solid; 1 to 3 are patterns of dashes
  std::string label;
  std::vector<Column> columns;  // in the order of steps; one without values is a gap
};

enum class PlotAxis { kLinear, kFromZero, kLogarithmic };

struct Chart {
  std::string title;
  std::vector<PlotLine> lines;
};

// True if there is a value above 0: only those can be shown on a logarithmic axis.
bool HasPositive(const Chart& chart);

// An <svg> with axes and, for each line, <polyline class="raw">, from the least to the largest value of each column,
// and <polyline class="smooth">, the mean over a fiftieth of the columns to each side. Lines break at gaps; a value
// between two gaps, and each value of a line with few, is a <circle>.
std::string DrawChart(const Chart& chart, PlotAxis axis);

// What a whole is made of, as shares of it over the steps of one run: parts[i] belongs to names[i], and column j of all
// parts to the same steps.
struct ShareChart {
  std::string title;
  int run = 0;
  std::vector<std::string> names;
  std::vector<std::vector<Column>> parts;
};

// An <svg> with one <path class="part<i>"> for each part, stacked from the bottom in the order given.
std::string DrawShares(const ShareChart& chart);

// Where a page finds the plot inside of an <svg>, in the units of its viewBox.
inline constexpr double kPlotWidth = 720, kPlotHeight = 300;
inline constexpr double kPlotLeft = 58, kPlotRight = 706, kPlotTop = 12, kPlotBottom = 268;

// The steps of all lines; {0, 1} if there is none.
struct StepRange {
  double first = 0, last = 1;
};
StepRange StepsOf(const Chart& chart);
StepRange StepsOf(const ShareChart& chart);

}  // namespace belfry::trainers
