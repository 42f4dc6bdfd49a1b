#include "trainers/plots/plot_page.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace belfry::trainers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

RunMetrics Metrics(const std::string& name, const std::string& lines) {
  std::istringstream in(lines);
  return ParseRunMetrics(in, name).value();
}

RunMetrics Metrics(const std::string& key, const Curve& curve, int64_t last_step) {
  RunMetrics run{.name = "run", .lines = 1, .last_step = last_step};
  run.curves[key] = curve;
  return run;
}

// The data that the page's script reads.
Json DataOf(const std::vector<RunMetrics>& runs) {
  const std::string page = PlotPage(runs);
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t from = page.find(begin) + begin.size();
  EXPECT_EQ(page.find(begin, from), std::string::npos);
  Json data = Json::parse(page.substr(from, page.find("</script>", from) - from), nullptr, false);
  EXPECT_TRUE(data.is_object());
  return data;
}

std::vector<std::string> Titles(const Json& data) {
  std::vector<std::string> titles;
  for (const Json& chart : data["charts"]) titles.push_back(chart["title"]);
  return titles;
}

TEST(PlotPage, HasAChartForEachKindAndALineForEachRun) {
  const std::string lines =
      "{\"step\": 0, \"loss\": 2, \"learning_rate\": 0.1, \"images_per_second\": 0, \"w\": 1, \"seconds_input\": 1, "
      "\"seconds_step\": 3}\n{\"step\": 10, \"loss\": 1, \"learning_rate\": 0.1, \"images_per_second\": 500, \"w\": 2, "
      "\"seconds_input\": 1, \"seconds_step\": 3}\n{\"step\": 11, \"test_accuracy\": 0.75, \"test_loss\": 1.5}\n";
  const Json data = DataOf({Metrics("first", lines), Metrics("second", lines)});
  EXPECT_EQ(data["runs"].dump(), R"([{"name":"first","last_step":11},{"name":"second","last_step":11}])");
  EXPECT_THAT(Titles(data), ElementsAre("Loss", "Accuracy", "Learning rate", "Throughput, per second", "w",
                                        "Where the time went: first", "Where the time went: second"));
  std::string scales, labels, cells;
  for (const Json& chart : data["charts"]) {
    absl::StrAppend(&scales, chart["scale"].get<std::string>(), " ");
    for (const Json& line : chart["lines"]) {
      absl::StrAppend(&labels, line["label"].get<std::string>(), "; ");
      if (line["run"] == 0) absl::StrAppend(&cells, line["cells"].dump());
    }
  }
  EXPECT_EQ(scales, "logarithmic linear zero zero linear shares shares ");
  EXPECT_THAT(labels, HasSubstr("first, loss; first, test_loss; second, loss; second, test_loss; first, test_acc"));
  EXPECT_THAT(labels, HasSubstr("second, w; step; input; step; input; "));
  EXPECT_EQ(cells,
            R"({"loss":"1","best loss":"1 at 10"}{"test_loss":"1.5","best test_loss":"1.5 at 11"})"
            R"({"test_accuracy":"0.75","best test_accuracy":"0.75 at 11"}{}{"mean images_per_second":"500"}{"w":"2"})"
            R"({"time: step":"75.0%"}{"time: input":"25.0%"})");
  EXPECT_EQ(data["charts"][0]["lines"][0]["columns"].dump(), "[[0,2.0,2.0,2.0],[10,1.0,1.0,1.0]]");
  EXPECT_EQ(data["charts"][5]["lines"][1]["columns"].dump(), "[[0,1.0,1.0,1.0],[10,1.0,1.0,1.0]]");
  EXPECT_EQ(data["charts"][6]["lines"][1]["run"], 1);
}

TEST(PlotPage, KnowsKeys) {
  const Json data =
      DataOf({Metrics("r",
                      "{\"step\": 1, \"train_error\": 1, \"validation_top_5\": 1, \"rows_per_second\": 1, "
                      "\"seconds_other\": 1, \"b\": 1}\n")});
  std::vector<std::string> found;
  for (const Json& chart : data["charts"]) {
    found.push_back(
        absl::StrCat(chart["title"].get<std::string>(), ": ", chart["lines"][0]["label"].get<std::string>()));
  }
  EXPECT_THAT(found, ElementsAre("Loss: train_error", "Accuracy: validation_top_5",
                                 "Throughput, per second: rows_per_second", "b: b", "Where the time went: r: other"));
}

TEST(PlotPage, EscapesNames) {
  const std::string name = "</script><b>&\"'\xff", lines = "{\"step\": 1, \"</script>&loss\": 2, \"<u>\": 3}\n";
  const std::string page = PlotPage({Metrics(name, lines)});
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, Not(HasSubstr("<u>")));
  EXPECT_EQ(DataOf({Metrics(name, lines)})["charts"][0]["lines"][0]["label"], "</script>&loss");
}

TEST(PlotPage, NeedsNoValues) {
  for (const char* lines : {"", "{\"step\": 1}\n", "{\"step\": 1, \"loss\": null, \"seconds_step\": null}\n"}) {
    const Json data = DataOf({Metrics("empty", lines)});
    EXPECT_EQ(data["runs"][0]["name"], "empty");
    for (const Json& chart : data["charts"]) {
      EXPECT_EQ(chart["lines"][0]["columns"].dump(), "[[1,null]]");
      EXPECT_THAT(chart["lines"][0]["cells"], IsEmpty());
    }
  }
  EXPECT_TRUE(DataOf({Metrics("empty", "")})["runs"][0]["last_step"].is_null());
  EXPECT_THAT(DataOf({Metrics("empty", "")})["charts"], IsEmpty());
}

TEST(PlotPage, HasGapsAndChoosesTheScale) {
  Curve curve;
  for (int i = 0; i < 4; ++i) curve.Add(i, i == 2 ? NAN : -i);
  const Json chart = DataOf({Metrics("loss", curve, 3)})["charts"][0];
  EXPECT_EQ(chart["scale"], "linear");  // no value above 0
  EXPECT_EQ(chart["lines"][0]["columns"].dump(), "[[0,0.0,0.0,0.0],[1,-1.0,-1.0,-1.0],[2,null],[3,-3.0,-3.0,-3.0]]");
  curve.Add(4, 1e-3);
  EXPECT_EQ(DataOf({Metrics("loss", curve, 4)})["charts"][0]["scale"], "logarithmic");
}

TEST(PlotPage, TakesHugeValues) {
  Curve huge;
  for (double value : {1e308, -1e308, 0.0, 5e-324, DBL_MAX})
    huge.Add(static_cast<int64_t>(huge.columns().size()), value);
  huge.Coarsen(8);  // their sum overflows
  const Json columns = DataOf({Metrics("loss", huge, 4)})["charts"][0]["lines"][0]["columns"];
  ASSERT_THAT(columns, SizeIs(1));
  EXPECT_EQ(columns[0][2], -1e100);  // what Chart.js can draw
}

TEST(PlotPage, ThinsOutAndKeepsExtremes) {
  Curve curve;
  for (int i = 0; i < 1'000'000; ++i) curve.Add(i, i == 654'321 ? 10 : i == 654'322 ? -10 : 0);
  const Json columns = DataOf({Metrics("w", curve, 999'999)})["charts"][0]["lines"][0]["columns"];
  EXPECT_LE(columns.size(), Curve::kMaxColumns);
  EXPECT_EQ(columns.back()[0], 999'999);
  double min = 0, max = 0;
  for (const Json& column : columns)
    min = std::min(min, column[2].get<double>()), max = std::max(max, column[3].get<double>());
  EXPECT_EQ(min, -10);
  EXPECT_EQ(max, 10);
}

TEST(PlotPage, SharesHaveEqualSteps) {
  std::string lines;
  for (int i = 0; i < 5000; ++i) {
    absl::StrAppend(&lines, "{\"step\": ", i, ", \"seconds_step\": 3, \"seconds_input\": 1}\n");
    if (i % 7 == 0) absl::StrAppend(&lines, "{\"step\": ", i, ", \"seconds_evaluate\": 1}\n");
  }
  const Json chart = DataOf({Metrics("r", lines)})["charts"][0];
  ASSERT_THAT(chart["lines"], SizeIs(3));
  EXPECT_EQ(chart["lines"][0]["label"], "step");
  EXPECT_LE(chart["lines"][0]["columns"].size(), 200u);
  for (size_t i = 0; i < chart["lines"][0]["columns"].size(); ++i) {
    for (const Json& line : chart["lines"]) EXPECT_EQ(line["columns"][i][0], chart["lines"][0]["columns"][i][0]);
  }
}

TEST(PlotPage, IsSelfContained) {
  const std::string page = PlotPage({Metrics("r", "{\"step\": 1, \"loss\": 2}\n")});
  EXPECT_THAT(page, HasSubstr("Released under the MIT License"));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("<link")));
  EXPECT_THAT(page, Not(HasSubstr("@DATA@")));
  EXPECT_THAT(page, Not(HasSubstr("@CHART_JS@")));
}

}  // namespace
}  // namespace belfry::trainers
