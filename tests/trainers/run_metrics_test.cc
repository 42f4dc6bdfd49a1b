#include "trainers/plots/plots.h"

#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/main/testing.h"
#include "trainers/callbacks/metrics.h"

namespace belfry::trainers {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<RunMetrics> Parse(const std::string& text) { return ParseRunMetrics(text, "run"); }

absl::StatusOr<RunMetrics> Read(const std::string& path) {
  absl::StatusOr<std::vector<RunMetrics>> runs = ReadRunMetrics({path});
  if (!runs.ok()) return runs.status();
  return std::move(runs->front());
}

// "10: 2.5", "20: nan".
std::vector<std::string> Texts(const std::vector<RunMetrics::Point>& points) {
  std::vector<std::string> texts;
  for (const auto& [step, value] : points) texts.push_back(absl::StrCat(step, ": ", value));
  return texts;
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
  const RunMetrics run = Read(path).value();
  EXPECT_EQ(run.name, "belfry_run_metrics");
  EXPECT_EQ(run.lines, 3);
  EXPECT_EQ(run.last_step, 11);
  ASSERT_EQ(run.curves.size(), 3u);
  EXPECT_THAT(Texts(run.curves.at("loss")), ElementsAre("0: 2.5", "10: nan"));
  EXPECT_THAT(Texts(run.curves.at("rate")), ElementsAre("0: 1e-07", "10: 3"));
  EXPECT_THAT(Texts(run.curves.at("accuracy")), ElementsAre("11: 0.5"));
}

TEST(RunMetrics, TakesNansAndPassesOverWhatIsNoNumber) {
  const RunMetrics run = Parse(
                             "{\"step\": 1, \"a\": NaN, \"b\": -Infinity, \"NaN\": 4, \"c\": \"x NaN\\\"\", "
                             "\"d\": [1, {\"e\": 5}], \"f\": true}\n\n  {\"step\":2,\"a\":null,\"b\":7}\r\n")
                             .value();
  EXPECT_EQ(run.curves.size(), 3u);
  EXPECT_THAT(Texts(run.curves.at("a")), ElementsAre("1: nan", "2: nan"));
  EXPECT_THAT(Texts(run.curves.at("b")), ElementsAre("1: nan", "2: 7"));
  EXPECT_THAT(Texts(run.curves.at("NaN")), ElementsAre("1: 4"));
  EXPECT_THAT(Texts(Parse("{\"step\":1,\"a\":NaN,\"b\":[NaN, -Infinity,Infinity]}").value().curves.at("a")),
              ElementsAre("1: nan"));
}

TEST(RunMetrics, TakesWhatAKilledRunLeaves) {
  EXPECT_EQ(Parse("").value().lines, 0);
  EXPECT_EQ(Parse("{\"step\": 1, \"a\": 1}\n{\"step\": 2, \"a").value().lines, 1);
  EXPECT_THAT(Texts(Parse("{\"step\": 1, \"a\": 1}\n{\"step\": 2, \"a\": 5}").value().curves.at("a")),
              ElementsAre("1: 1", "2: 5"));
  const RunMetrics went_on = Parse("{\"step\": 10, \"a\": 1}\n{\"step\": 20, \"a{\"step\": 15, \"a\": 3}\n").value();
  EXPECT_EQ(went_on.lines, 2);
  EXPECT_THAT(Texts(went_on.curves.at("a")), ElementsAre("10: 1", "15: 3"));
}

TEST(RunMetrics, DropsWhatARunRepeats) {
  const RunMetrics run = Parse(
                             "{\"step\": 0, \"a\": 1, \"b\": 9}\n{\"step\": 10, \"a\": 2, \"b\": 9}\n"
                             "{\"step\": 20, \"a\": 3}\n{\"step\": 10, \"a\": 4}\n")
                             .value();
  EXPECT_THAT(Texts(run.curves.at("a")), ElementsAre("0: 1", "10: 4"));
  EXPECT_THAT(Texts(run.curves.at("b")), ElementsAre("0: 9"));
  EXPECT_EQ(run.last_step, 10);
}

TEST(RunMetrics, SaysWhichLineIsWrong) {
  for (const char* line :
       {"loss 5", "[1]", "7", "{\"step\": 5", "{\"step\": 5} x", "{\"loss\": 5}", "{\"step\": -1}", "{\"step\": 1.5}",
        "{\"step\": null}", "{\"step\": 1e300}", "{\"step\": 3, \"loss\": 1e999}"}) {
    const auto run = Parse(absl::StrCat("{\"step\": 1}\n\n", line, "\n{\"step\": 7}\n"));
    EXPECT_EQ(run.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(run.status().message(), AllOf(HasSubstr("run:3: "), HasSubstr("{\"step\": 10"))) << line;
  }
  EXPECT_THAT(Parse("garbage").status().message(), HasSubstr("run:1: 'garbage' is not a JSON object"));
  EXPECT_THAT(Parse("{" + std::string(2 << 20, ' ')).status().message(), HasSubstr("1 MiB"));
  std::string keys = "{\"step\": 1";
  for (int i = 0; i < 300; ++i) absl::StrAppend(&keys, ", \"k", i, "\": 1");
  EXPECT_THAT(Parse(keys + "}\n").status().message(), HasSubstr("256"));
}

TEST(RunMetrics, FindsTheFileOfADirectory) {
  const TemporaryFolder temporary;
  const std::string folder = temporary / "belfry_run_folder";
  std::filesystem::create_directories(folder);
  EXPECT_THAT(Read(folder).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder + "/metrics.jsonl")));
  for (const char* text : {"", "\n", "{\"step\": 3, \"lo"}) {
    std::ofstream(folder + "/metrics.jsonl") << text;
    EXPECT_THAT(Read(folder).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(folder + "/metrics.jsonl: no line")));
  }
  std::ofstream(folder + "/metrics.jsonl") << "{\"step\": 3}\n";
  for (const std::string& path :
       {folder, folder + "/", folder + "/metrics.jsonl", folder + "/../belfry_run_folder/."}) {
    ASSERT_OK_AND_ASSIGN(const auto run, Read(path));
    EXPECT_EQ(run.name, "belfry_run_folder") << path;
  }
}

TEST(RunMetrics, CallsRunsOfOneNameByTheirPaths) {
  const TemporaryFolder temporary;
  const std::string folder = temporary.path();
  for (const char* name : {"a/x", "b/x", "y"}) {
    temporary.Write(absl::StrCat(name, "/metrics.jsonl"), "{\"step\": 3}\n");
  }
  const std::vector<RunMetrics> runs = ReadRunMetrics({folder + "/a/x", folder + "/y", folder + "/b/x"}).value();
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].name, folder + "/a/x");
  EXPECT_EQ(runs[1].name, "y");
  EXPECT_EQ(runs[2].name, folder + "/b/x");
  const std::vector<std::string> missing = {folder + "/y", folder + "/z"};
  EXPECT_EQ(ReadRunMetrics(missing).status().code(), absl::StatusCode::kNotFound);
}

TEST(ReadRunMetrics, RefusesAPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "metrics.jsonl").c_str(), 0600), 0);
  for (const std::string& path : {folder.path(), folder / "metrics.jsonl"}) {
    EXPECT_THAT(Read(path).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("is a pipe, not a file")));
  }
}

// As a kill or a full disk leaves it: without an end of line, or with that of a writer that went on.
TEST(ParseRunMetrics, LeavesOutALastLineThatBreaksOff) {
  for (const char* torn : {"{\"step\":2,\"lo", "{\"step\":2,\"lo\n", "{\"step\":2,\"lo\n\n", "{"}) {
    ASSERT_OK_AND_ASSIGN(const RunMetrics run, Parse(absl::StrCat("{\"step\":1,\"loss\":3}\n", torn)));
    EXPECT_EQ(run.lines, 1);
    EXPECT_TRUE(run.torn) << torn;
  }
  EXPECT_FALSE(Parse("{\"step\":1,\"loss\":3}\n")->torn);
  EXPECT_FALSE(Parse("{\"step\":1,\"lo\n{\"step\":2,\"loss\":3}\n").ok()) << "more than the last line is damaged";
}

}  // namespace
}  // namespace belfry::trainers
