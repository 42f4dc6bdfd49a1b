#include <cmath>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/trainers/xml.h"
#include "trainers/plots/plot_html.h"
#include "trainers/plots/plot_scale.h"
#include "trainers/plots/plot_summary.h"
#include "trainers/plots/plot_svg.h"

namespace belfry::trainers {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

RunMetrics Metrics(const std::string& name, const std::string& lines) {
  std::istringstream in(lines);
  RunMetrics run = ParseRunMetrics(in, name).value();
  return run;
}

std::vector<XmlElement> Xml(const std::string& text) {
  auto elements = ParseXml(text);
  EXPECT_TRUE(elements.ok()) << elements.status();
  return elements.ok() ? *elements : std::vector<XmlElement>();
}

std::vector<XmlElement> Find(const std::vector<XmlElement>& elements, const std::string& name,
                             const std::string& css_class = "") {
  std::vector<XmlElement> found;
  for (const XmlElement& element : elements) {
    if (element.name == name && (css_class.empty() || element.Has(css_class))) found.push_back(element);
  }
  return found;
}

struct Place {
  double x, y;
};

std::vector<Place> Places(const XmlElement& polyline) {
  std::vector<Place> places;
  for (absl::string_view pair : absl::StrSplit(polyline.attributes.at("points"), ' ')) {
    const std::vector<absl::string_view> numbers = absl::StrSplit(pair, ',');
    Place place;
    EXPECT_TRUE(numbers.size() == 2 && absl::SimpleAtod(numbers[0], &place.x) &&
                absl::SimpleAtod(numbers[1], &place.y));
    EXPECT_TRUE(kPlotLeft <= place.x && place.x <= kPlotRight && kPlotTop <= place.y && place.y <= kPlotBottom) << pair;
    places.push_back(place);
  }
  return places;
}

Chart ChartOf(const Curve& curve) {
  Chart chart{.title = "t", .lines = {{.label = "l"}}};
  for (const auto& [number, column] : curve.columns()) chart.lines[0].columns.push_back(column);
  return chart;
}

TEST(PlotSvg, DrawsALineThroughItsValues) {
  Curve curve;
  for (int i = 0; i <= 100; ++i) curve.Add(i, i);
  const auto svg = Xml(DrawChart(ChartOf(curve), PlotAxis::kLinear));
  const auto lines = Find(svg, "polyline", "raw");
  ASSERT_EQ(lines.size(), 1u);
  const std::vector<Place> places = Places(lines[0]);
  ASSERT_EQ(places.size(), 101u);
  EXPECT_NEAR(places[0].x, kPlotLeft, 0.1);
  EXPECT_NEAR(places[0].y, kPlotBottom, 0.1);
  EXPECT_NEAR(places[50].y, (kPlotTop + kPlotBottom) / 2, 0.1);
  EXPECT_NEAR(places[100].x, kPlotRight, 0.1);
  EXPECT_NEAR(places[100].y, kPlotTop, 0.1);
  EXPECT_THAT(Find(svg, "polyline", "smooth"), SizeIs(1));
}

TEST(PlotSvg, SmoothsWhatIsRaw) {
  Curve curve;
  for (int i = 0; i < 1000; ++i) curve.Add(i, i % 2);
  const auto svg = Xml(DrawChart(ChartOf(curve), PlotAxis::kLinear));
  for (const Place& place : Places(Find(svg, "polyline", "smooth").at(0))) {
    EXPECT_NEAR(place.y, (kPlotTop + kPlotBottom) / 2, 10);
  }
}

TEST(PlotSvg, ShowsLeastAndLargestOfThinnedColumns) {
  Curve curve;
  for (int i = 0; i < 1'000'000; ++i) curve.Add(i, i == 654'321 ? 10 : i == 654'322 ? -10 : 0);
  const auto svg = Xml(DrawChart(ChartOf(curve), PlotAxis::kLinear));
  const std::vector<Place> places = Places(Find(svg, "polyline", "raw").at(0));
  EXPECT_LE(places.size(), 2 * Curve::kMaxColumns);
  double top = kPlotBottom, bottom = kPlotTop;
  for (const Place& place : places) top = std::min(top, place.y), bottom = std::max(bottom, place.y);
  EXPECT_NEAR(top, kPlotTop, 0.1);
  EXPECT_NEAR(bottom, kPlotBottom, 0.1);
}

TEST(PlotSvg, BreaksAtGaps) {
  Curve curve;
  for (int i = 0; i < 10; ++i) curve.Add(i, i == 4 || i == 6 ? NAN : i);
  const auto svg = Xml(DrawChart(ChartOf(curve), PlotAxis::kLinear));
  const auto lines = Find(svg, "polyline", "smooth");
  ASSERT_EQ(lines.size(), 2u);  // 0 to 3 and 7 to 9; 5 stands alone
  EXPECT_THAT(Places(lines[0]), SizeIs(4));
  EXPECT_THAT(Places(lines[1]), SizeIs(3));
  EXPECT_THAT(Find(svg, "circle"), SizeIs(8));
}

TEST(PlotSvg, LeavesOutWhatALogarithmHasNot) {
  Curve curve;
  for (int i = -3; i <= 3; ++i) curve.Add(i + 3, i);
  const Chart chart = ChartOf(curve);
  EXPECT_TRUE(HasPositive(chart));
  EXPECT_THAT(Find(Xml(DrawChart(chart, PlotAxis::kLogarithmic)), "circle"), SizeIs(3));
  Curve zero;
  zero.Add(0, 0);
  EXPECT_FALSE(HasPositive(ChartOf(zero)));
}

TEST(PlotSvg, DrawsOneValueAndHugeOnes) {
  Curve one;
  one.Add(7, 3);
  EXPECT_THAT(Find(Xml(DrawChart(ChartOf(one), PlotAxis::kLinear)), "circle"), SizeIs(1));
  Curve huge;
  for (double value : {1e308, -1e308, 0.0, 5e-324}) huge.Add(static_cast<int64_t>(huge.columns().size()), value);
  for (PlotAxis axis : {PlotAxis::kLinear, PlotAxis::kFromZero, PlotAxis::kLogarithmic}) {
    const std::string svg = DrawChart(ChartOf(huge), axis);
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
    Xml(svg);
  }
}

TEST(PlotSvg, StacksShares) {
  const Column one{.first_step = 0, .last_step = 10, .count = 1, .sum = 1}, three{0, 10, 1, 3}, gap{20, 20};
  const auto svg = Xml(DrawShares({.title = "t", .run = 2, .names = {"a", "b"}, .parts = {{one, gap}, {three, gap}}}));
  const auto bottom = Find(svg, "path", "part0"), top = Find(svg, "path", "part1");
  ASSERT_TRUE(bottom.size() == 1 && top.size() == 1);
  EXPECT_EQ(bottom[0].attributes.at("d"), "M58.0,268.0H382.0V204.0H58.0z");
  EXPECT_EQ(top[0].attributes.at("d"), "M58.0,204.0H382.0V12.0H58.0z");
}

TEST(PlotScale, TicksAreRound) {
  EXPECT_THAT(Ticks(RoundScale(0.1, 0.93), 5), ElementsAre(0, 0.2, 0.4, testing::DoubleNear(0.6, 1e-12), 0.8, 1));
  EXPECT_THAT(Ticks(LogScale(0.001, 100), 5), ElementsAre(testing::DoubleNear(0.001, 1e-12), 0.01, 0.1, 1, 10, 100));
  EXPECT_THAT(Ticks(LogScale(1, 12), 5), ElementsAre(1, 2, 5, 10));
  for (double value : {0.0, 1.0, -5.0, 1e-300, 1e300}) {
    for (const Scale& scale : {ExactScale(value, value), RoundScale(value, value), ExactScale(value, 2e300)}) {
      EXPECT_LT(scale.low, scale.high) << value;
      EXPECT_THAT(Ticks(scale, 5), Not(testing::IsEmpty())) << value;
      EXPECT_LE(Ticks(scale, 5).size(), 20u) << value;
    }
  }
  EXPECT_EQ(TickText(0.25), "0.25");
  EXPECT_EQ(TickText(64'000), "64k");
  EXPECT_EQ(TickText(1.5e6), "1.5M");
}

TEST(PlotPage, HasAChartForEachKindAndALineForEachRun) {
  const std::string lines =
      "{\"step\": 0, \"loss\": 2, \"learning_rate\": 0.1, \"images_per_second\": 0, \"w\": 1, \"seconds_input\": 1, "
      "\"seconds_step\": 3}\n{\"step\": 10, \"loss\": 1, \"learning_rate\": 0.1, \"images_per_second\": 500, \"w\": 2, "
      "\"seconds_input\": 1, \"seconds_step\": 3}\n{\"step\": 11, \"test_accuracy\": 0.75, \"test_loss\": 1.5}\n";
  const auto page = Xml(PlotPage({Metrics("first", lines), Metrics("second", lines)}));
  std::vector<std::string> captions;
  for (const XmlElement& caption : Find(page, "figcaption")) captions.push_back(caption.text);
  EXPECT_THAT(captions, ElementsAre("Loss", "Accuracy", "Learning rate", "Throughput, per second", "w",
                                    "Where the time went: first", "Where the time went: second"));
  // Two runs of: loss and test_loss, each on two axes; accuracy, learning rate, throughput, w.
  EXPECT_THAT(Find(page, "g", "run0"), SizeIs(4 + 4 + 1));
  EXPECT_THAT(Find(page, "g", "run1"), SizeIs(4 + 4 + 1));
  EXPECT_THAT(Find(page, "input", "pick"), SizeIs(2));
  for (const XmlElement& script : Find(page, "script", "data")) {
    const auto data = nlohmann::json::parse(script.text);
    for (const auto& line : data["lines"]) EXPECT_EQ(line["steps"].size(), line["values"].size());
  }
  std::string cells;
  for (const XmlElement& cell : Find(page, "td")) absl::StrAppend(&cells, cell.text, "|");
  EXPECT_THAT(cells, HasSubstr("first|11|1|1 |1.5|1.5 |0.75|0.75 |500|25.0%|75.0%|2|second|"));
}

TEST(PlotPage, EscapesNames) {
  const std::string name = "</script><b>&\"'", lines = "{\"step\": 1, \"<i>&loss\": 2, \"<u>\": 3}\n";
  const std::string text = PlotPage({Metrics(name, lines)});
  const auto page = Xml(text);
  EXPECT_THAT(Find(page, "b"), SizeIs(0));
  EXPECT_THAT(Find(page, "i"), SizeIs(0));
  EXPECT_THAT(Find(page, "u"), SizeIs(0));
  EXPECT_EQ(Find(page, "title").at(0).text, EscapeHtml(name));
  const auto data = nlohmann::json::parse(Find(page, "script", "data").at(0).text);
  EXPECT_EQ(data["lines"][0]["label"], "<i>&loss");
}

TEST(PlotPage, NeedsNoValues) {
  for (const char* lines : {"", "{\"step\": 1}\n", "{\"step\": 1, \"loss\": null, \"seconds_step\": null}\n"}) {
    const auto page = Xml(PlotPage({Metrics("empty", lines)}));
    EXPECT_THAT(Find(page, "circle"), SizeIs(0)) << lines;
    EXPECT_THAT(Find(page, "td"), Not(SizeIs(0))) << lines;
  }
  EXPECT_THAT(PlotPage({Metrics("empty", "")}), HasSubstr("Nothing to plot yet"));
}

TEST(PlotSummary, KnowsKeys) {
  EXPECT_EQ(KindOf("test_loss"), MetricKind::kLoss);
  EXPECT_EQ(KindOf("validation_top_5"), MetricKind::kAccuracy);
  EXPECT_EQ(KindOf("images_per_second"), MetricKind::kRate);
  EXPECT_EQ(KindOf("seconds_other"), MetricKind::kSeconds);
  EXPECT_EQ(KindOf("b"), MetricKind::kOther);
}

TEST(ParseXml, RefusesWhatIsNotWellFormed) {
  for (const char* text : {"<a>", "<a></b>", "<a b=c/>", "<a/><b/>", "<a>&</a>", "<a b=\"1\" b=\"2\"/>", "x"}) {
    EXPECT_FALSE(ParseXml(text).ok()) << text;
  }
}

}  // namespace
}  // namespace belfry::trainers
