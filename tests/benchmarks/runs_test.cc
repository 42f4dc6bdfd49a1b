// What benchmarks compute from what they measure.
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "benchmarks/allreduce_run.h"
#include "benchmarks/memory_use.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/report.h"
#include "benchmarks/serve.h"
#include "benchmarks/step_times.h"
#include "benchmarks/training_run.h"
#include "tests/main/testing.h"

namespace belfry::benchmarks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Rates, MedianIsTheMiddleOrTheMeanOfTheTwoThere) {
  EXPECT_EQ(Median({5, 1, 3}), 3);
  EXPECT_EQ(Median({4, 1, 3, 100}), 3.5);
  EXPECT_EQ(Median({7}), 7);
}

TEST(Rates, RatioComparesSidesRoundByRound) {
  // The machine was three times as slow in the second round, for both.
  const Side a{.name = "a", .rates = {30, 10, 36}}, b{.name = "b", .rates = {15, 5, 12}};
  EXPECT_EQ(MedianRatio(a, b), 2);
}

TEST(Rates, EveryStepOfAnUnfinishedQueueIsWaitedFor) {
  int steps = 0, waited = -1;
  const auto step = [&] { return ++steps, absl::OkStatus(); };
  EXPECT_GT(*Rate(step, 1e-4, [&] { return waited = steps, absl::OkStatus(); }), 0);
  EXPECT_EQ(waited, steps);
  EXPECT_EQ(Rate([] { return absl::AbortedError(""); }, 1e-4).status(), absl::AbortedError(""));
}

// nccl-tests' PERFORMANCE.md: an all-reduce of S bytes in t seconds among n ranks.
TEST(Bandwidth, IsAsNcclTestsDefineIt) {
  EXPECT_DOUBLE_EQ(AlgorithmBandwidth(1e9, 0.5), 2e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(2e9, 2), 2e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(2e9, 8), 3.5e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(2e9, 1), 0);
}

TEST(AllReduce, IsTimedOnceItIsRight) {
  ASSERT_OK_AND_ASSIGN(const auto devices, DeviceSet::Open("cpu:3", {.cpu_threads = 1}));
  ASSERT_OK_AND_ASSIGN(const auto result, RunAllReduce(devices, MakeLocalCollective, 1001, 2, 1e-4));
  EXPECT_EQ(result.seconds.size(), 2u);
  for (double seconds : result.seconds) EXPECT_GT(seconds, 0);
  EXPECT_LT(result.largest_error, 1e-6);
}

TEST(AllReduce, AWrongMeanIsSeen) {
  ASSERT_OK_AND_ASSIGN(const auto devices, DeviceSet::Open("cpu:2", {.cpu_threads = 1}));
  const CollectiveFactory sums = [](CollectiveSpec spec) {
    spec.kind = CollectiveKind::kSum;
    return MakeLocalCollective(std::move(spec));
  };
  ASSERT_OK_AND_ASSIGN(const auto result, RunAllReduce(devices, sums, 10, 1, 1e-4));
  EXPECT_NEAR(result.largest_error, 1, 1e-6);
}

TEST(LeastArena, IsTheMostInUseAtOnce) {
  MemoryPlan memory;
  memory.blocks = {{.device = 0, .node = 0, .bytes = 100, .start = -1, .end = 2},
                   {.device = 0, .node = 1, .bytes = 10, .start = 1, .end = 3},
                   {.device = 0, .node = 3, .bytes = 80, .start = 3, .end = 5},  // begins when the first is gone
                   {.device = 1, .node = 2, .bytes = 1000, .start = 2, .end = 2}};
  EXPECT_EQ(LeastArena(memory, 0), 110u);
  EXPECT_EQ(LeastArena(memory, 1), 1000u);
  EXPECT_EQ(LeastArena(memory, 2), 0u);
}

TEST(LeastArena, IsNoMoreThanWhatThePlannerTook) {
  ASSERT_OK_AND_ASSIGN(const auto run, TrainingRun::Create({.model = "mlp", .batch = 4}));
  const MemoryPlan& memory = run->prepared().plan().memory;
  EXPECT_GT(LeastArena(memory, 0), 0u);
  EXPECT_LE(LeastArena(memory, 0), memory.arena_bytes[0]);
  EXPECT_LT(LeastArena(memory, 0), memory.sum_bytes[0]);
}

TEST(MemoryUse, IsReadFromProc) {
  ASSERT_OK_AND_ASSIGN(const auto use,
                       ParseMemoryUse("Name:\tx\nVmHWM:\t    1000 kB\nRssAnon:\t     600 kB\nRssFile:\t 300 kB\n"));
  EXPECT_EQ(use.anonymous_bytes, 600 * 1024);
  EXPECT_EQ(use.peak_bytes, 700 * 1024);
  EXPECT_THAT(ParseMemoryUse("VmHWM:\t1 kB\nRssFile:\t1 kB\n").status().message(), HasSubstr("RssAnon"));
  EXPECT_FALSE(ParseMemoryUse("VmHWM:\tmany kB\nRssAnon:\t1 kB\nRssFile:\t1 kB\n").ok());
  ASSERT_OK_AND_ASSIGN(const auto now, ReadMemoryUse());
  EXPECT_GT(now.anonymous_bytes, 0);
}

TEST(Report, TableJsonAndCsvHaveAllColumns) {
  Report report("name", "Title");
  nlohmann::ordered_json row = {{"model", "a, b"}, {"batch", 128}};
  AddSpread(row, "rate", {3, 1, 2000});
  report.Add(row);
  report.Add({{"model", "s5"}, {"extra", 0.5}});
  report.Summarize("in short");
  const std::vector<std::string> lines = absl::StrSplit(report.Table(), '\n');
  ASSERT_GE(lines.size(), 6u);  // title, machine, in one line or more, columns, two rows, the end
  const size_t columns = lines.size() - 4;
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(lines[columns], ' ', absl::SkipEmpty())),
              ElementsAre("model", "batch", "rate", "extra"));
  EXPECT_THAT(lines[columns + 1], HasSubstr(" 3 [1 .. 2000] "));
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(lines[columns + 2], ' ', absl::SkipEmpty())),
              ElementsAre("s5", "-", "-", "0.5"));
  EXPECT_EQ(report.Csv(), "model,batch,rate,rate_min,rate_max,extra\n\"a, b\",128,3.0,1.0,2000.0,\ns5,,,,,0.5\n");
  EXPECT_EQ(report.Json()["rows"][0]["rate_max"], 2000);
  EXPECT_EQ(report.Json()["summary"][0], "in short");
}

TEST(Report, ASpreadOfOneValueIsThatValue) {
  Report report("name", "Title");
  nlohmann::ordered_json row;
  AddSpread(row, "rate", {1, 1});
  report.Add(row);
  const std::vector<std::string> lines = absl::StrSplit(report.Table(), '\n');
  ASSERT_GE(lines.size(), 2u);
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(lines[lines.size() - 2], ' ', absl::SkipEmpty())),
              ElementsAre("1"));
}

TEST(Report, AWideTableIsPrintedInParts) {
  Report report("scaling",
                "Scaling of cifar_net, resnet20 in float32 over CPU devices of a thread each; medians "
                "[min .. max] of the rounds, of which there were many");
  for (const char* program : {"cifar_net, one", "resnet20, strong, nccl"}) {
    nlohmann::ordered_json row = {{"program", program}, {"devices", 2}, {"batch", 128}};
    AddSpread(row, "images/s", {4114, 4053, 4387});
    AddSpread(row, "speed_up", {1.17, 1.09, 1.19});
    row.update({{"efficiency", 0.587}, {"step_ms", 4.53}, {"compute_ms", 4.41}, {"averaging_ms", 1.06}});
    row["exposed_ms"] = 0.13;
    report.Add(row);
  }
  const std::string table = report.Table();
  for (const absl::string_view line : absl::StrSplit(table, '\n')) EXPECT_LE(line.size(), 110u) << line;
  const std::vector<std::string> words = absl::StrSplit(table, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  for (const char* figure :
       {"4114", "[4053", "4387]", "1.17", "[1.09", "1.19]", "0.587", "4.53", "4.41", "1.06", "0.13"}) {
    EXPECT_EQ(std::count(words.begin(), words.end(), figure), 2) << figure << "\n" << table;
  }
  EXPECT_EQ(std::count(words.begin(), words.end(), "program"), 2) << table;
}

TEST(Models, AreFoundByNameOrAnErrorSaysWhichThereAre) {
  for (const char* name : {"cifar_net", "cifar_net_no_lrn", "resnet8", "resnet20", "mlp", "dlrm", "s5"}) {
    EXPECT_TRUE(FindModel(name).ok()) << name;
  }
  for (const char* name : {"", "resnet", "resnet21", "resnet20x", "lenet"}) {
    EXPECT_THAT(FindModel(name).status().message(), HasSubstr("cifar_net")) << name;
  }
}

TEST(TrainingRun, TowersDoTheSameWorkAsOne) {
  const auto losses = [](const char* model, const char* devices) {
    const auto run =
        TrainingRun::Create({.model = model, .devices = devices, .device = {.cpu_threads = 1}, .batch = 8});
    EXPECT_TRUE(run.ok()) << run.status();
    std::vector<float> losses;
    for (int i = 0; run.ok() && i < 3; ++i) {
      EXPECT_TRUE((*run)->Step().ok());
      losses.push_back((*run)->loss());
    }
    return losses;
  };
  for (const char* model : {"mlp", "s5", "cifar_net_no_lrn"}) {
    const std::vector<float> one = losses(model, "cpu:1"), two = losses(model, "cpu:2");
    ASSERT_EQ(one.size(), two.size());
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 1e-4 * one[i]) << model << ", step " << i;
  }
}

TEST(TrainingRun, ABatchThatTowersCannotShareIsAnError) {
  EXPECT_THAT(TrainingRun::Create({.model = "mlp", .devices = "cpu:2", .batch = 7}).status().message(),
              HasSubstr("multiple of the 2 towers"));
  EXPECT_THAT(TrainingRun::Create({.model = "s5", .dtype = "bfloat16"}).status().message(), HasSubstr("float32"));
}

TEST(StepTimes, PartsOfATracedStep) {
  ASSERT_OK_AND_ASSIGN(
      const auto run,
      TrainingRun::Create({.model = "mlp", .devices = "cpu:2", .device = {.cpu_threads = 1}, .batch = 4}));
  std::vector<StepTrace> traces(3);
  for (StepTrace& trace : traces) ASSERT_TRUE(run->TracedStep(trace).ok());
  const Plan& plan = run->prepared().plan();
  const StepParts parts = PartsOf(plan, traces);
  EXPECT_GT(parts.compute, 0);
  EXPECT_LE(parts.compute, parts.step);
  EXPECT_GT(parts.averaging, 0);
  EXPECT_GE(parts.exposed, 0);
  EXPECT_LE(parts.exposed, parts.averaging);
  const std::vector<NodeTime> times = NodeTimes(plan, traces);
  double flops = 0;
  for (const NodeTime& time : times) flops += time.flops;
  // Three matrix products forward and five backward, over 4 examples.
  EXPECT_GT(flops, 2.0 * 4 * (2 * 784 * 512 + 3 * (512 * 512 + 512 * 10)));
  EXPECT_LE(flops, FlopsOfStep(plan));
  EXPECT_THAT(Split(plan, times, 2), HasSubstr("%, "));
}

TEST(Serve, AnswersUntilItIsToldToQuit) {
  ASSERT_OK_AND_ASSIGN(const auto run, TrainingRun::Create({.model = "s5", .device = {.cpu_threads = 1}}));
  std::istringstream in("go 0.001\ngo 0.001\nquit\ngo 0.001\n");
  std::ostringstream out;
  ASSERT_EQ(Serve(*run, {}, in, out), absl::OkStatus());
  const std::vector<std::string> lines = absl::StrSplit(out.str(), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 3u);
  const auto ready = nlohmann::json::parse(lines[0]);
  // The scenario's known values.
  EXPECT_NEAR(ready["losses"][0].get<double>(), 97, 1e-4);
  EXPECT_NEAR(ready["losses"][1].get<double>(), 95.79673, 1e-4);
  EXPECT_NEAR(ready["losses"][2].get<double>(), 94.61192, 1e-4);
  for (int i : {1, 2}) {
    EXPECT_GT(nlohmann::json::parse(lines[i])["steps_per_second"].get<double>(), 0);
    EXPECT_GT(nlohmann::json::parse(lines[i])["peak_bytes"].get<double>(), 0);
  }
}

TEST(Serve, SaysWhatItDoesNotUnderstand) {
  for (const char* line : {"", "go", "go ", "go 0", "go -1", "go x", "go inf", "go nan", "stop", "go 99999"}) {
    EXPECT_THAT(ParseGo(line).status().message(), HasSubstr("expected \"go SECONDS\"")) << line;
  }
  EXPECT_EQ(*ParseGo("go 2.5"), 2.5);
}

}  // namespace
}  // namespace belfry::benchmarks
