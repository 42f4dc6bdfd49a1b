// What a run leaves behind, and what it says beforehand.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "models/towers/summaries.h"
#include "tests/framework/io/event_reader.h"
#include "tests/trainers/experiment.h"
#include "trainers/program/explain.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class OutputsTest : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
};

TEST_F(OutputsTest, ATraceOfSomeSteps) {
  Experiment run("cpu:2", /*batch=*/10, 0.1);  // divides the 50 examples: all steps are of one plan
  const std::string file = folder_ / "trace.json";
  const TrainerOptions options{.steps = 20, .quiet = true, .trace = {.first = 5, .last = 8, .file = file}};
  ASSERT_EQ(Trainer(*run.session, run.step, *run.input, options).Run(), absl::OkStatus());
  std::ifstream stream(file);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  std::set<std::string> rows, host;
  std::set<int> steps;
  for (const nlohmann::json& event : json["traceEvents"]) {
    if (event["name"] == "thread_name") rows.insert(event["args"]["name"]);
    if (event["ph"] != "X") continue;
    if (event["cat"] == "host") host.insert(event["name"]);
    if (event["args"].contains("step")) steps.insert(event["args"]["step"].get<int>());
  }
  EXPECT_THAT(rows, testing::Contains("training loop"));
  EXPECT_THAT(rows, testing::Contains("compute stream"));
  EXPECT_THAT(host, AllOf(testing::Contains("next batch"), testing::Contains("step 5"), testing::Contains("step 8")));
  EXPECT_EQ(steps, (std::set<int>{5, 6, 7, 8}));
}

TEST_F(OutputsTest, ATracedRunEndsAsAnyOther) {
  double losses[2];
  for (int traced = 0; traced < 2; ++traced) {
    Experiment run("cpu:2", 12, 0.1);
    TrainerOptions options{.steps = 20, .quiet = true};
    if (traced == 1) options.trace = {.first = 0, .last = 100};
    Trainer trainer(*run.session, run.step, *run.input, options);
    ASSERT_TRUE(trainer.Run().ok());
    losses[traced] = trainer.loss();
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(ParseTrace, TakesOneStepOrARange) {
  EXPECT_EQ(ParseTrace("7")->last, 7);
  EXPECT_EQ(ParseTrace("100-110")->first, 100);
  EXPECT_EQ(ParseTrace("100-110")->last, 110);
  for (const char* text : {"", "a", "-1", "3-", "5-4", "1-2-3", "1 - x"}) EXPECT_FALSE(ParseTrace(text).ok()) << text;
}

TEST_F(OutputsTest, EventsDoNotChangeTheRun) {
  double losses[2];
  for (int with_events = 0; with_events < 2; ++with_events) {
    Experiment run("cpu:2", 12, 0.1);
    TrainerOptions options{.steps = 20, .quiet = true};
    if (with_events == 1) {
      options.directory = folder_.path();
      options.summary_every = 5;
      options.summaries = models::AddTrainSummaries(Scope(run.graph), run.step);
      ASSERT_GT(options.summaries.size(), 5u);
    }
    Trainer trainer(*run.session, run.step, *run.input, options);
    ASSERT_EQ(trainer.Run(), absl::OkStatus());
    losses[with_events] = trainer.loss();
  }
  EXPECT_EQ(losses[0], losses[1]);
  std::map<std::string, std::vector<int64_t>> steps;  // by tag
  bool graph = false;
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    if (entry.path().filename().string().find("tfevents") == std::string::npos) continue;
    ASSERT_OK_AND_ASSIGN(const auto file, io::ReadEventFile(entry.path().string()));
    for (const io::Event& event : file.events) {
      graph = graph || !event.graph_def.empty();
      for (const io::SummaryValue& value : event.values) steps[value.tag].push_back(event.step);
    }
  }
  EXPECT_TRUE(graph);
  const std::vector<int64_t> every_fifth = {0, 5, 10, 15}, logged = {0, 10, 19};
  EXPECT_EQ(steps["total_loss"], every_fifth);
  EXPECT_EQ(steps["run/loss"], logged);
  int histograms = 0;
  for (const auto& [tag, at] : steps) {
    if (tag.find("/gradients") == std::string::npos) continue;
    ++histograms;
    EXPECT_EQ(at, every_fifth) << tag;
  }
  EXPECT_EQ(histograms, 4);  // weights and biases of two layers
}

TEST(Explain, TellsWhatARunCostsAndTheLargestBatch) {
  Experiment run("cpu:2", 12, 0.1);
  const auto steps = [&](int64_t batch) {
    std::vector<PlannedStep> planned = TrainingSteps(run.step, batch, batch == 12 ? 2 : batch, {});
    planned.push_back({"evaluation", run.evaluator->FeedsOf(50), run.evaluator->fetches()});
    return planned;
  };
  ASSERT_EQ(steps(12).size(), 3u);  // with the two examples that end an epoch
  const size_t limit = size_t{1} << 20;
  ASSERT_OK_AND_ASSIGN(const auto text, ExplainRun(*run.session, steps, 12, 2, /*examples=*/1 << 20, limit));
  EXPECT_THAT(text, AllOf(HasSubstr("A training step with a batch of 12 on 2 towers"), HasSubstr("CPU:1"),
                          HasSubstr("Critical path"), HasSubstr("MiB  evaluation"),
                          HasSubstr("The largest batch that fits into 1.00 MiB")));
  const size_t at = text.find("about ");
  ASSERT_NE(at, std::string::npos);
  const int64_t largest = std::stoll(text.substr(at + 6));
  EXPECT_EQ(largest % 2, 0);
  EXPECT_TRUE(FitMemoryLimit(*run.session, steps(largest), limit).ok());
  EXPECT_THAT(
      FitMemoryLimit(*run.session, steps(largest + largest / 16 + 8), limit),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("1.00 MiB are allowed"), HasSubstr("--explain lists"), testing::Not(HasSubstr("\n")))));
}

TEST(Explain, ProposesNoBatchBeyondTheData) {
  Experiment run("cpu:2", 12, 0.1);
  const auto steps = [&](int64_t batch) {
    EXPECT_LE(batch, 51);
    return TrainingSteps(run.step, batch, batch, {});
  };
  for (const int64_t examples : {51, 50, 33, 32}) {
    ASSERT_OK_AND_ASSIGN(const auto text, ExplainRun(*run.session, steps, 12, 2, examples, std::nullopt));
    EXPECT_THAT(text, HasSubstr(absl::StrCat("A batch of ", examples - examples % 2,
                                             " fits into the memory of the devices; the data has only ", examples,
                                             " examples.")));
  }
}

TEST(Explain, CountsTheLastBatchOnlyIfItIsSmaller) {
  Experiment run("cpu:2", 12, 0.1);
  EXPECT_EQ(TrainingSteps(run.step, 12, 2, {}).size(), 2u);
  EXPECT_EQ(TrainingSteps(run.step, 12, 12, {}).size(), 1u);
}

// Names may be longer than a line.
TEST(Explain, LinesFitIntoAWindow) {
  Experiment run("cpu:2", 12, 0.1);
  const auto steps = [&](int64_t batch) { return TrainingSteps(run.step, batch, /*last_batch=*/2, {}); };
  ASSERT_OK_AND_ASSIGN(const auto text, ExplainRun(*run.session, steps, 12, 2, 50, std::nullopt));
  for (const absl::string_view line : absl::StrSplit(text, '\n')) EXPECT_LE(line.size(), 100u) << line;
}

}  // namespace
}  // namespace belfry::trainers
