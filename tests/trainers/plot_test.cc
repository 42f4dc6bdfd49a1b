#include "trainers/plots/plots.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/trainers/page_script.h"

namespace belfry::trainers {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

using Points = std::vector<RunMetrics::Point>;

RunMetrics Metrics(const std::string& name, const std::string& lines) { return ParseRunMetrics(lines, name).value(); }

RunMetrics Metrics(const std::string& key, const Points& points) {
  RunMetrics run{.name = "run", .lines = 1, .last_step = points.back().step};
  run.curves[key] = points;
  return run;
}

class PlotPageTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasNode()) GTEST_SKIP() << kNoNode;
  }
};

// The charts and the table that the page's script makes, and the data that it reads.
Json DataOf(const std::vector<RunMetrics>& runs) {
  const std::string page = PlotPage(runs);
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t from = page.find(begin) + begin.size();
  EXPECT_EQ(page.find(begin, from), std::string::npos);
  Json data = Json::parse(page.substr(from, page.find("</script>", from) - from), nullptr, false);
  EXPECT_TRUE(data.is_object());
  data.update(RunScript(page));
  EXPECT_EQ(data["charts"].size(), data["drawn"].size());
  return data;
}

// Those of the only run, as the page's script reads them.
Json CurvesOf(const RunMetrics& run) {
  const std::string page = PlotPage({run}), begin = "id=\"data\">";
  const size_t from = page.find(begin) + begin.size();
  return Json::parse(page.substr(from, page.find("</script>", from) - from), nullptr, false)["runs"][0]["curves"];
}

std::vector<std::string> Titles(const Json& data) {
  std::vector<std::string> titles;
  for (const Json& chart : data["charts"]) titles.push_back(chart["title"]);
  return titles;
}

TEST_F(PlotPageTest, HasAChartForEachKindAndALineForEachRun) {
  const std::string lines =
      "{\"step\": 0, \"loss\": 2, \"learning_rate\": 0.1, \"images_per_second\": 0, \"w\": 1, \"seconds_input\": 1, "
      "\"seconds_step\": 3}\n{\"step\": 10, \"loss\": 1, \"learning_rate\": 0.1, \"images_per_second\": 500, \"w\": 2, "
      "\"seconds_input\": 1, \"seconds_step\": 3}\n{\"step\": 11, \"test_accuracy\": 0.75, \"test_loss\": 1.5}\n";
  const Json data = DataOf({Metrics("first", lines), Metrics("second", lines)});
  EXPECT_EQ(
      data["rows"][0].dump(),
      R"(["run","last step","loss","best","test_loss","best","test_accuracy","best","mean images_per_second","w",)"
      R"("time: step","time: input"])");
  EXPECT_EQ(data["rows"][2].dump(), R"(["second",11,"1","1 at 10","1.5","1.5 at 11","0.75","0.75 at 11","500","2",)"
                                    R"("75.0%","25.0%"])");
  EXPECT_THAT(Titles(data), ElementsAre("Loss", "Accuracy", "Learning rate", "Throughput, images/s", "w",
                                        "Where the time went: first", "Where the time went: second"));
  std::string axes, labels;
  for (const Json& chart : data["charts"]) {
    absl::StrAppend(&axes, chart["y"].dump());
    for (const Json& line : chart["datasets"]) absl::StrAppend(&labels, line["label"].get<std::string>(), "; ");
  }
  const std::string shares = R"({"stacked":true,"min":0,"max":100,"title":{"text":"% of the time"}})";
  const std::string rate = R"({"beginAtZero":true,"title":{"text":"images/s"}})";
  EXPECT_EQ(axes, R"({"type":"logarithmic"}{}{"beginAtZero":true})" + rate + "{}" + shares + shares);
  EXPECT_THAT(labels, HasSubstr("first, loss; first, test_loss; second, loss; second, test_loss; first, test_acc"));
  EXPECT_THAT(labels, HasSubstr("second, w; step; input; step; input; "));
  EXPECT_EQ(data["table"].dump(),
            R"({"loss":["1","1"],"best loss":["1 at 10","1 at 10"],"test_loss":["1.5","1.5"],)"
            R"("best test_loss":["1.5 at 11","1.5 at 11"],"test_accuracy":["0.75","0.75"],)"
            R"("best test_accuracy":["0.75 at 11","0.75 at 11"],"mean images_per_second":["500","500"],)"
            R"("w":["2","2"],"time: step":["75.0%","75.0%"],"time: input":["25.0%","25.0%"]})");
  EXPECT_EQ(data["charts"][0]["datasets"][0]["data"].dump(), R"([[0,2,"2"],[10,1,"1"]])");
  EXPECT_EQ(data["charts"][5]["datasets"][1]["data"].dump(), R"([[0,25,"25%"],[10,25,"25%"]])");
  EXPECT_EQ(data["charts"][6]["datasets"][1]["run"], 1);
}

// Only the cross-entropy can be compared with a test loss: the loss has the weight decay, too.
TEST_F(PlotPageTest, HasCrossEntropyAndTestLossOnOneScale) {
  const RunMetrics decays = Metrics("decays",
                                    "{\"step\": 0, \"loss\": 3.1, \"cross_entropy\": 0.9}\n"
                                    "{\"step\": 1, \"test_loss\": 0.8}\n"),
                   plain = Metrics("plain", "{\"step\": 0, \"loss\": 2}\n{\"step\": 1, \"test_loss\": 1.5}\n");
  const auto lines = [](const Json& chart) {
    std::vector<std::string> labels;
    for (const Json& line : chart["datasets"]) labels.push_back(line["label"]);
    return labels;
  };
  const Json data = DataOf({decays, plain});
  EXPECT_THAT(Titles(data), ElementsAre("Cross-entropy", "Total loss"));
  EXPECT_THAT(lines(data["charts"][0]),
              ElementsAre("decays, cross_entropy", "decays, test_loss", "plain, loss", "plain, test_loss"));
  EXPECT_THAT(lines(data["charts"][1]), ElementsAre("decays, loss"));
  for (int line = 0; line < 4; ++line) EXPECT_EQ(data["charts"][0]["datasets"][line]["dash"], line % 2);
  EXPECT_THAT(Titles(DataOf({plain})), ElementsAre("Loss"));
}

TEST_F(PlotPageTest, HasAThroughputForEachUnit) {
  const Json data = DataOf({Metrics("r", "{\"step\": 1, \"tokens_per_second\": 5, \"_per_second\": 3}\n"),
                            Metrics("s", "{\"step\": 1, \"images_per_second\": 5}\n")});
  EXPECT_THAT(Titles(data), ElementsAre("Throughput, examples/s", "Throughput, images/s", "Throughput, tokens/s"));
  EXPECT_EQ(data["charts"][2]["y"]["title"]["text"], "tokens/s");
}

TEST_F(PlotPageTest, TablesRunsThatDiffer) {
  const Json data = DataOf({Metrics("a", "{\"step\": 1, \"v\": 1}\n"), Metrics("b", "{\"step\": 1, \"w\": 2}\n"),
                            Metrics("c", "{\"step\": 2, \"v\": 3}\n")});
  EXPECT_EQ(data["table"].dump(), R"({"v":["1",null,"3"],"w":[null,"2"]})");
  EXPECT_EQ(data["charts"][0]["datasets"][1]["run"], 2);
}

TEST_F(PlotPageTest, KnowsKeys) {
  const Json data =
      DataOf({Metrics("r",
                      "{\"step\": 1, \"train_error\": 1, \"validation_top_5\": 1, \"rows_per_second\": 1, "
                      "\"seconds_other\": 1, \"b\": 1}\n")});
  std::vector<std::string> found;
  for (const Json& chart : data["charts"]) {
    found.push_back(
        absl::StrCat(chart["title"].get<std::string>(), ": ", chart["datasets"][0]["label"].get<std::string>()));
  }
  EXPECT_THAT(found, ElementsAre("Loss: train_error", "Accuracy: validation_top_5",
                                 "Throughput, rows/s: rows_per_second", "b: b", "Where the time went: r: other"));
}

TEST_F(PlotPageTest, EscapesNames) {
  const std::string name = "</script><b>&\"'\xff", lines = "{\"step\": 1, \"</script>&loss\": 2, \"<u>\": 3}\n";
  const std::string page = PlotPage({Metrics(name, lines)});
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, Not(HasSubstr("<u>")));
  EXPECT_EQ(DataOf({Metrics(name, lines)})["charts"][0]["datasets"][0]["label"], "</script>&loss");
}

TEST_F(PlotPageTest, NeedsNoValues) {
  for (const char* lines : {"", "{\"step\": 1}\n", "{\"step\": 1, \"loss\": null, \"seconds_step\": null}\n"}) {
    const Json data = DataOf({Metrics("empty", lines)});
    EXPECT_EQ(data["runs"][0]["name"], "empty");
    for (const Json& chart : data["charts"]) {
      const Json& points = chart["datasets"][0]["data"];
      ASSERT_THAT(points, SizeIs(1));
      EXPECT_EQ(points[0][0], 1);
      EXPECT_TRUE(points[0][1].is_null());
    }
    EXPECT_THAT(data["table"], IsEmpty());
  }
  EXPECT_TRUE(DataOf({Metrics("empty", "")})["runs"][0]["last_step"].is_null());
  EXPECT_THAT(DataOf({Metrics("empty", "")})["charts"], IsEmpty());
}

TEST_F(PlotPageTest, HasGapsAndChoosesTheScale) {
  Points points = {{0, 0}, {1, -1}, {2, NAN}, {3, -3}};
  const Json chart = DataOf({Metrics("loss", points)})["charts"][0];
  EXPECT_FALSE(chart["y"].contains("type"));  // no value above 0: linear
  EXPECT_EQ(chart["datasets"][0]["data"].dump(), R"([[0,0,"0"],[1,-1,"-1"],[2,null,"NaN"],[3,-3,"-3"]])");
  points.push_back({4, 1e-3});
  EXPECT_EQ(DataOf({Metrics("loss", points)})["charts"][0]["y"]["type"], "logarithmic");
}

TEST_F(PlotPageTest, TakesHugeValues) {
  Points huge;
  for (double value : {1e308, -1e308, 0.0, 5e-324, DBL_MAX, DBL_MAX}) {
    huge.push_back({static_cast<int64_t>(huge.size()), value});
  }
  for (int i = 8; i < 8 * 1024; ++i) huge.push_back({i, 1});  // columns of 8 steps; the sum of the first overflows
  const Json lines = DataOf({Metrics("loss", huge)})["charts"][0]["datasets"];
  ASSERT_THAT(lines, SizeIs(2));
  ASSERT_THAT(lines[0]["data"], SizeIs(1024));
  EXPECT_LE(std::abs(lines[0]["data"][0][1].get<double>()), 1e100);  // what Chart.js can draw
  EXPECT_EQ(lines[1]["data"][0].dump(), "[5,-1e+100]");
  EXPECT_EQ(lines[1]["data"][1].dump(), "[5,1e+100]");
}

TEST_F(PlotPageTest, SmoothsOverAFiftiethToEitherSide) {
  for (int stride : {1, 10}) {
    SCOPED_TRACE(stride);
    const auto value = [](int i) { return i == 100 ? NAN : i * i % 97; };
    Points points;
    for (int i = 0; i < 200; ++i) points.push_back({stride * i, static_cast<double>(value(i))});
    const Json line = DataOf({Metrics("w", points)})["charts"][0]["datasets"][0];
    ASSERT_THAT(line["data"], SizeIs(200));
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(line["data"][i][0], stride * i);
      EXPECT_EQ(line["data"][i][2], i == 100 ? "NaN" : absl::StrCat(value(i)));  // not smoothed
      double sum = 0, count = 0;
      for (int j = std::max(0, i - 3); j <= std::min(199, i + 3); ++j) {
        if (j != 100) sum += value(j), ++count;
      }
      if (i == 100) {
        EXPECT_TRUE(line["data"][i][1].is_null());
      } else {
        EXPECT_NEAR(line["data"][i][1].get<double>(), sum / count, 1e-9) << i;
      }
    }
  }
}

TEST_F(PlotPageTest, DrawsShortCurvesAsTheyAre) {
  Points points;  // so uneven that smoothing would join steps
  for (int i = 0; i < 40; ++i) points.push_back({i < 20 ? i : 100 * i, static_cast<double>(i % 3)});
  const Json lines = DataOf({Metrics("w", points)})["charts"][0]["datasets"];
  ASSERT_THAT(lines, SizeIs(1));
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(lines[0]["data"][i][1], i % 3);
    EXPECT_EQ(lines[0]["pointRadius"][i], 2.5);
  }
}

TEST_F(PlotPageTest, MarksPointsThatNoLineShows) {
  const std::set<int> gaps = {1, 20, 22, 40, 41, 58}, lone = {0, 21, 59};
  Points points;
  for (int i = 0; i < 60; ++i) points.push_back({i, gaps.contains(i) ? NAN : 1});
  const Json line = DataOf({Metrics("w", points)})["charts"][0]["datasets"][0];
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(line["data"][i][1].is_null(), gaps.contains(i)) << i;
    if (gaps.contains(i)) continue;
    EXPECT_EQ(line["pointRadius"][i], lone.contains(i) ? 2.5 : 0) << i;
  }
}

TEST_F(PlotPageTest, DrawsRangesFaintly) {
  Points points;  // in columns of two steps
  for (int i = 0; i < 2048; ++i) points.push_back({i, i == 4 || i == 5 ? NAN : i == 6 ? 7 : i});
  const Json lines = DataOf({Metrics("w", points)})["charts"][0]["datasets"];
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_FALSE(lines[0].contains("faint"));
  EXPECT_EQ(lines[1]["faint"], true);
  EXPECT_EQ(lines[1]["label"], lines[0]["label"]);  // so that the legend hides both
  const Json& ranges = lines[1]["data"];
  const Json first(ranges.begin(), ranges.begin() + 8);
  EXPECT_EQ(first.dump(), "[[1,0],[1,1],[3,2],[3,3],[5,null],[7,7],[9,8],[9,9]]");
}

TEST_F(PlotPageTest, ThinsOutAndKeepsExtremes) {
  Points points;
  for (int i = 0; i < 1'000'000; ++i) points.push_back({i, i == 654'321 ? 10.0 : i == 654'322 ? -10.0 : 0.0});
  const Json data = DataOf({Metrics("accuracy", points)}), lines = data["charts"][0]["datasets"];
  EXPECT_EQ(data["table"].dump(), R"({"accuracy":["0"],"best accuracy":["10 at 654321"]})");
  EXPECT_LE(lines[0]["data"].size(), 1024);
  EXPECT_EQ(lines[0]["data"].back()[0], 999'999);
  double min = 0, max = 0;
  for (const Json& point : lines[1]["data"])
    min = std::min(min, point[1].get<double>()), max = std::max(max, point[1].get<double>());
  EXPECT_EQ(min, -10);
  EXPECT_EQ(max, 10);
}

// Columns are [last step, values, sum, min, max].
TEST(PlotPage, HasColumnsOfAsFewStepsAsSuffice) {
  constexpr int64_t kSteps = 300'000, kFirst = 5'000'000;
  Points points;
  double sum = 0;
  for (int64_t i = 0; i < kSteps; ++i) {
    const double value = i == 123'456 ? 1000 : i == 200'001 ? -1000 : static_cast<double>(i % 17);
    sum += value;
    points.push_back({kFirst + 7 * i, value});
  }
  const Json curve = CurvesOf(Metrics("w", points))["w"];
  EXPECT_EQ(curve["greatest"].dump(), absl::StrCat("{\"step\":", kFirst + 7 * 123'456, ",\"value\":1000.0}"));
  EXPECT_EQ(curve["least"].dump(), absl::StrCat("{\"step\":", kFirst + 7 * 200'001, ",\"value\":-1000.0}"));
  EXPECT_EQ(curve["last"]["step"], points.back().step);
  EXPECT_THAT(curve["columns"].size(), AllOf(Ge(512u), Le(1024u)));
  int64_t count = 0, before = -1;
  double sum_of_columns = 0, min = 0, max = 0;
  for (const Json& column : curve["columns"]) {
    const int64_t number = column[0].get<int64_t>() / curve["width"].get<int64_t>();
    EXPECT_LT(before, number);
    before = number;
    count += column[1].get<int64_t>();
    sum_of_columns += column[2].get<double>();
    min = std::min(min, column[3].get<double>());
    max = std::max(max, column[4].get<double>());
  }
  EXPECT_EQ(count, kSteps);
  EXPECT_EQ(sum_of_columns, sum);
  EXPECT_EQ(min, -1000);
  EXPECT_EQ(max, 1000);
}

TEST(PlotPage, HasShortCurvesAsTheyAre) {
  Points points;
  for (int i = 0; i < 1024; ++i) points.push_back({1000 * i, i == 2 ? NAN : i});
  Json curve = CurvesOf(Metrics("w", points))["w"];
  EXPECT_EQ(curve["width"], 1);
  ASSERT_THAT(curve["columns"], SizeIs(1024));
  EXPECT_EQ(curve["columns"][1].dump(), "[1000,1,1.0,1.0,1.0]");
  EXPECT_EQ(curve["columns"][2].dump(), "[2000,0,0.0,null,null]");
  points.push_back({1'024'000, 5});
  curve = CurvesOf(Metrics("w", points))["w"];
  EXPECT_EQ(curve["width"], 1024);
  EXPECT_EQ(curve["columns"][0].dump(), "[1000,2,1.0,0.0,1.0]");
}

TEST_F(PlotPageTest, SharesHaveEqualSteps) {
  std::string lines;
  for (int i = 0; i < 5000; ++i) {
    absl::StrAppend(&lines, "{\"step\": ", i, ", \"seconds_step\": 3, \"seconds_input\": 1}\n");
    if (i % 7 == 0) absl::StrAppend(&lines, "{\"step\": ", i, ", \"seconds_evaluate\": 1}\n");
  }
  const Json areas = DataOf({Metrics("r", lines)})["charts"][0]["datasets"];
  ASSERT_THAT(areas, SizeIs(3));
  EXPECT_EQ(areas[0]["label"], "step");
  EXPECT_EQ(areas[1]["label"], "evaluate");
  const size_t columns = areas[0]["data"].size();
  EXPECT_THAT(columns, AllOf(Ge(100u), Le(200u)));
  int step = 0;
  for (size_t i = 0; i < columns; ++i) {
    double sum = 0;
    for (const Json& area : areas) {
      ASSERT_THAT(area["data"], SizeIs(columns));
      EXPECT_EQ(area["data"][i][0], areas[0]["data"][i][0]);
      sum += area["data"][i][1].get<double>();
    }
    EXPECT_NEAR(sum, 100, 1e-9);
    // Shares of the seconds, although some parts have more lines than others.
    double evaluate = 0, all = 0;
    for (; step <= areas[0]["data"][i][0].get<int>(); ++step) {
      evaluate += step % 7 == 0;
      all += step % 7 == 0 ? 5 : 4;
    }
    EXPECT_NEAR(areas[1]["data"][i][1].get<double>(), 100 * evaluate / all, 1e-9) << i;
  }
  EXPECT_EQ(step, 5000);
}

TEST_F(PlotPageTest, SharesTakeMissingLines) {
  const Json data = DataOf({Metrics("r",
                                    "{\"step\": 0, \"seconds_step\": 3, \"seconds_input\": 1}\n"
                                    "{\"step\": 1, \"seconds_step\": 2}\n"
                                    "{\"step\": 2, \"seconds_step\": 1, \"seconds_input\": null}\n"
                                    "{\"step\": 3, \"seconds_step\": null, \"seconds_input\": null}\n"
                                    "{\"step\": 4, \"seconds_evaluate\": 5}\n"
                                    "{\"step\": 5, \"seconds_step\": 1, \"seconds_input\": 2}\n"
                                    "{\"step\": 6, \"seconds_step\": 0, \"seconds_input\": 0}\n")});
  const Json& areas = data["charts"][0]["datasets"];
  ASSERT_THAT(areas, SizeIs(3));
  const std::vector<std::vector<double>> expected = {
      {75, 100, 100, NAN, 0, 100.0 / 3, NAN}, {0, 0, 0, NAN, 100, 0, NAN}, {25, 0, 0, NAN, 0, 200.0 / 3, NAN}};
  for (size_t part = 0; part < 3; ++part) {
    ASSERT_THAT(areas[part]["data"], SizeIs(7));
    for (size_t i = 0; i < 7; ++i) {
      const Json& point = areas[part]["data"][i];
      EXPECT_EQ(point[0], i);
      if (std::isnan(expected[part][i])) {
        EXPECT_TRUE(point[1].is_null()) << part << " " << i;
      } else {
        EXPECT_NEAR(point[1].get<double>(), expected[part][i], 1e-9) << part << " " << i;
      }
    }
  }
  EXPECT_EQ(areas[2]["data"][5][2], "66.7%");
  EXPECT_EQ(data["table"].dump(), R"({"time: step":["46.7%"],"time: evaluate":["33.3%"],"time: input":["20.0%"]})");
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
