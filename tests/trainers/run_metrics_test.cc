#include "trainers/plots/run_metrics.h"

#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/framework/io/io_testing.h"
#include "trainers/callbacks/metrics.h"

namespace belfry::trainers {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<RunMetrics> Parse(const std::string& text) {
  std::istringstream in(text);
  return ParseRunMetrics(in, "run");
}

std::vector<double> Means(const Curve& curve) {
  std::vector<double> means;
  for (const auto& [number, column] : curve.columns()) means.push_back(column.mean());
  return means;
}

TEST(RunMetrics, ReadsWhatTheWriterWrites) {
  const std::string path = testing::TempDir() + "belfry_run_metrics.jsonl";
  std::filesystem::remove(path);
  {
    auto writer = MetricsWriter::Open(path).value();
    ASSERT_TRUE(writer.Write({{"step", 0}, {"loss", 2.5}, {"rate", 1e-7}}).ok());
    ASSERT_TRUE(writer.Write({{"step", 10}, {"loss", NAN}, {"rate", 3}}).ok());
    ASSERT_TRUE(writer.Write({{"step", 11}, {"accuracy", 0.5}}).ok());
  }
  const RunMetrics run = ReadRunMetrics(path).value();
  EXPECT_EQ(run.name, "belfry_run_metrics");
  EXPECT_EQ(run.lines, 3);
  EXPECT_EQ(run.last_step, 11);
  ASSERT_EQ(run.curves.size(), 3u);
  EXPECT_EQ(run.curves.at("loss").columns().at(0).last, 2.5);
  EXPECT_EQ(run.curves.at("loss").columns().at(10).count, 0);
  EXPECT_THAT(Means(run.curves.at("rate")), ElementsAre(1e-7, 3));
  EXPECT_EQ(run.curves.at("accuracy").columns().at(11).first_step, 11);
}

TEST(RunMetrics, TakesNansAndPassesOverWhatIsNoNumber) {
  const RunMetrics run = Parse(
                             "{\"step\": 1, \"a\": NaN, \"b\": -Infinity, \"NaN\": 4, \"c\": \"x NaN\\\"\", "
                             "\"d\": [1, {\"e\": 5}], \"f\": true}\n\n  {\"step\":2,\"a\":null,\"b\":7}\r\n")
                             .value();
  EXPECT_EQ(run.curves.size(), 3u);
  EXPECT_EQ(run.curves.at("a").Total().count, 0);
  EXPECT_EQ(run.curves.at("b").Total().sum, 7);
  EXPECT_EQ(run.curves.at("NaN").Total().sum, 4);
}

TEST(RunMetrics, TakesWhatAKilledRunLeaves) {
  EXPECT_EQ(Parse("").value().lines, 0);
  EXPECT_EQ(Parse("{\"step\": 1, \"a\": 1}\n{\"step\": 2, \"a").value().lines, 1);
  EXPECT_EQ(Parse("{\"step\": 1, \"a\": 1}\n{\"step\": 2, \"a\": 5}").value().curves.at("a").Total().last, 5);
  const RunMetrics went_on = Parse("{\"step\": 10, \"a\": 1}\n{\"step\": 20, \"a{\"step\": 15, \"a\": 3}\n").value();
  EXPECT_EQ(went_on.lines, 2);
  EXPECT_THAT(Means(went_on.curves.at("a")), ElementsAre(1, 3));
}

TEST(RunMetrics, DropsWhatARunRepeats) {
  const RunMetrics run = Parse(
                             "{\"step\": 0, \"a\": 1, \"b\": 9}\n{\"step\": 10, \"a\": 2, \"b\": 9}\n"
                             "{\"step\": 20, \"a\": 3}\n{\"step\": 10, \"a\": 4}\n")
                             .value();
  EXPECT_THAT(Means(run.curves.at("a")), ElementsAre(1, 4));
  EXPECT_THAT(Means(run.curves.at("b")), ElementsAre(9));
  EXPECT_EQ(run.last_step, 10);
}

TEST(RunMetrics, SaysWhichLineIsWrong) {
  for (const char* line :
       {"loss 5", "[1]", "7", "{\"step\": 5", "{\"step\": 5} x", "{\"loss\": 5}", "{\"step\": -1}", "{\"step\": 1.5}",
        "{\"step\": null}", "{\"step\": 1e300}", "{\"step\": 3, \"loss\": 1e999}"}) {
    const auto run = Parse(absl::StrCat("{\"step\": 1}\n\n", line, "\n{\"step\": 7}\n"));
    EXPECT_EQ(run.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(run.status().message()), AllOf(HasSubstr("run:3: "), HasSubstr("{\"step\": 10"))) << line;
  }
  EXPECT_THAT(std::string(Parse("garbage").status().message()), HasSubstr("run:1: 'garbage' is not a JSON object"));
  EXPECT_THAT(std::string(Parse("{" + std::string(2 << 20, ' ')).status().message()), HasSubstr("1 MiB"));
  std::string keys = "{\"step\": 1";
  for (int i = 0; i < 300; ++i) absl::StrAppend(&keys, ", \"k", i, "\": 1");
  EXPECT_THAT(std::string(Parse(keys + "}\n").status().message()), HasSubstr("256"));
}

TEST(RunMetrics, FindsTheFileOfADirectory) {
  const std::string folder = testing::TempDir() + "belfry_run_folder";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto missing = ReadRunMetrics(folder);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr(folder + "/metrics.jsonl"));
  for (const char* text : {"", "\n", "{\"step\": 3, \"lo"}) {
    std::ofstream(folder + "/metrics.jsonl") << text;
    const absl::Status empty = ReadRunMetrics(folder).status();
    EXPECT_EQ(empty.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(empty.message()), HasSubstr(folder + "/metrics.jsonl: no line"));
  }
  std::ofstream(folder + "/metrics.jsonl") << "{\"step\": 3}\n";
  for (const std::string& path :
       {folder, folder + "/", folder + "/metrics.jsonl", folder + "/../belfry_run_folder/."}) {
    const auto run = ReadRunMetrics(path);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->name, "belfry_run_folder") << path;
  }
}

TEST(RunMetrics, CallsRunsOfOneNameByTheirPaths) {
  const std::string folder = testing::TempDir() + "belfry_run_names";
  std::filesystem::remove_all(folder);
  for (const char* name : {"/a/x", "/b/x", "/y"}) {
    std::filesystem::create_directories(folder + name);
    std::ofstream(folder + name + "/metrics.jsonl") << "{\"step\": 3}\n";
  }
  const std::vector<RunMetrics> runs = ReadRunMetrics({folder + "/a/x", folder + "/y", folder + "/b/x"}).value();
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].name, folder + "/a/x");
  EXPECT_EQ(runs[1].name, "y");
  EXPECT_EQ(runs[2].name, folder + "/b/x");
  const std::vector<std::string> missing = {folder + "/y", folder + "/z"};
  EXPECT_EQ(ReadRunMetrics(missing).status().code(), absl::StatusCode::kNotFound);
}

TEST(RunMetrics, SumsCurves) {
  const RunMetrics run = Parse(
                             "{\"step\": 0, \"t_a\": 1, \"t_b\": 2, \"u\": 9}\n{\"step\": 1, \"t_b\": 3}\n"
                             "{\"step\": 2, \"t_a\": null}\n{\"step\": 3, \"t_a\": 4, \"t_b\": null}\n")
                             .value();
  const Curve sum = run.Sum("t_");
  ASSERT_EQ(sum.columns().size(), 4u);
  EXPECT_EQ(sum.columns().at(0).sum, 3);
  EXPECT_EQ(sum.columns().at(1).sum, 3);
  EXPECT_EQ(sum.columns().at(2).count, 0);
  EXPECT_EQ(sum.columns().at(3).sum, 4);
  EXPECT_EQ(run.Sum("v").columns().size(), 0u);
}

TEST(Curve, MergesCurvesOfDifferentWidths) {
  for (bool coarse_first : {false, true}) {
    Curve fine, coarse;
    for (int64_t i = 1; i < 8; ++i) fine.Add(i, 1);
    for (int64_t i = 0; i < 10; ++i) coarse.Add(i, 10);
    coarse.Coarsen(4);
    Curve& sum = coarse_first ? coarse : fine;
    sum.Merge(coarse_first ? fine : coarse);
    EXPECT_EQ(sum.width(), 4);
    ASSERT_EQ(sum.columns().size(), 3u);
    EXPECT_EQ(sum.columns().at(0).sum, 43);
    EXPECT_EQ(sum.columns().at(0).first_step, 0);
    EXPECT_EQ(sum.columns().at(0).last_step, 3);
    EXPECT_EQ(sum.columns().at(1).sum, 44);
    EXPECT_EQ(sum.columns().at(2).sum, 20);
    EXPECT_EQ(sum.columns().at(2).last_step, 9);
  }
}

TEST(Curve, TotalsColumnsAndFindsLoneOnes) {
  Curve curve;
  for (int64_t i = 0; i < 6; ++i) curve.Add(10 * i, i == 1 || i == 3 ? NAN : static_cast<double>(i));
  EXPECT_EQ(curve.Total().sum, 11);
  EXPECT_EQ(curve.Total(20, 40).sum, 6);
  EXPECT_EQ(curve.Total(20, 40).count, 2);
  EXPECT_EQ(curve.Total(20, 40).first_step, 20);
  EXPECT_EQ(curve.Total(-5, 9).count, 1);
  EXPECT_EQ(curve.Total(10, 19).count, 0);
  EXPECT_TRUE(std::isnan(curve.Total(10, 19).mean()));
  EXPECT_TRUE(curve.IsLone(0));
  EXPECT_TRUE(curve.IsLone(20));
  EXPECT_FALSE(curve.IsLone(40));
  EXPECT_FALSE(curve.IsLone(50));
}

TEST(Curve, KnowsTheStepsOfAColumnThatLostSome) {
  Curve curve;
  for (int64_t i = 0; i < 8; ++i) curve.Add(i, 1);
  curve.Coarsen(4);
  curve.DropFrom(2);
  ASSERT_EQ(curve.columns().size(), 1u);
  EXPECT_EQ(curve.columns().at(0).last_step, 1);
}

TEST(Curve, ThinsOutAndKeepsExtremes) {
  constexpr int64_t kSteps = 300'000, kFirst = 5'000'000;
  Curve curve;
  double sum = 0;
  for (int64_t i = 0; i < kSteps; ++i) {
    const double value = i == 123'456 ? 1000 : i == 200'001 ? -1000 : static_cast<double>(i % 17);
    sum += value;
    curve.Add(kFirst + 7 * i, value);
  }
  EXPECT_LE(curve.columns().size(), Curve::kMaxColumns);
  EXPECT_GE(curve.columns().size(), Curve::kMaxColumns / 4);
  const Column total = curve.Total();
  EXPECT_EQ(total.count, kSteps);
  EXPECT_EQ(total.sum, sum);
  EXPECT_EQ(total.max, 1000);
  EXPECT_EQ(total.max_step, kFirst + 7 * 123'456);
  EXPECT_EQ(total.min, -1000);
  EXPECT_EQ(total.min_step, kFirst + 7 * 200'001);
  int64_t before = -1;
  for (const auto& [number, column] : curve.columns()) {
    EXPECT_LT(before, column.first_step);
    EXPECT_EQ(number, column.first_step / curve.width());
    EXPECT_EQ(number, column.last_step / curve.width());
    before = column.last_step;
  }
}

TEST(Curve, IsExactWhileItIsShort) {
  Curve curve;
  for (size_t i = 0; i < Curve::kMaxColumns; ++i) curve.Add(static_cast<int64_t>(1000 * i), static_cast<double>(i));
  EXPECT_EQ(curve.width(), 1);
  EXPECT_EQ(curve.columns().size(), Curve::kMaxColumns);
  curve.Coarsen(4096);
  EXPECT_EQ(curve.width(), 4096);
  EXPECT_EQ(curve.columns().begin()->second.count, 5);
  curve.DropFrom(4096);
  EXPECT_EQ(curve.columns().size(), 1u);
}

TEST(ReadRunMetrics, RefusesAPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "metrics.jsonl").c_str(), 0600), 0);
  for (const std::string& path : {folder.path(), folder / "metrics.jsonl"}) {
    const absl::Status status = ReadRunMetrics(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("is a pipe, not a file"));
  }
}

// As a kill or a full disk leaves it: without an end of line, or with that of a writer that went on.
TEST(ParseRunMetrics, LeavesOutALastLineThatBreaksOff) {
  for (const char* torn : {"{\"step\":2,\"lo", "{\"step\":2,\"lo\n", "{\"step\":2,\"lo\n\n", "{"}) {
    const absl::StatusOr<RunMetrics> run = Parse(absl::StrCat("{\"step\":1,\"loss\":3}\n", torn));
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->lines, 1);
    EXPECT_TRUE(run->torn) << torn;
  }
  EXPECT_FALSE(Parse("{\"step\":1,\"loss\":3}\n")->torn);
  EXPECT_FALSE(Parse("{\"step\":1,\"lo\n{\"step\":2,\"loss\":3}\n").ok()) << "more than the last line is damaged";
}

}  // namespace
}  // namespace belfry::trainers
