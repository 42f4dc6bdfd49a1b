// A fault at every point of the loop: the run that goes on ends with the bytes of an undisturbed one, its metrics file
// has each line once, and TensorBoard sees each step of a tag once.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "framework/data/resume.h"
#include "framework/runtime/saver.h"
#include "models/towers/summaries.h"
#include "tests/framework/io/event_reader.h"
#include "tests/trainers/experiment.h"
#include "trainers/callbacks/step_records.h"
#include "trainers/loop/run_directory.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t kRecordsBatch = 12, kRecordsSteps = 12, kEvaluateEvery = 4;

// Called with the steps that are done; may throw, or return an error.
using Fault = std::function<absl::Status(int64_t step)>;
const Fault kNone = [](int64_t) { return absl::OkStatus(); };

struct Faults {
  Fault in_evaluation = kNone, after_step = kNone;
};

TrainerOptions Options(const std::string& folder) {
  TrainerOptions options{
      .steps = kRecordsSteps, .log_every = 3, .metrics_file = folder + "/metrics.jsonl", .quiet = true};
  options.directory = folder;
  options.checkpoint_every = 5;
  options.evaluate_every = kEvaluateEvery;
  options.patience = 2;
  return options;
}

// A life of the run in `folder`, which goes on from the latest checkpoint.
absl::Status Live(const std::string& folder, const Faults& faults) {
  TrainerOptions options = Options(folder);
  const absl::StatusOr<io::Checkpoint> last = io::LoadLatestCheckpoint(CheckpointFolder(folder));
  data::Position start;
  if (last.ok()) {
    options.resume.checkpoint = &*last;
    start = data::TakePosition(last->metadata, {.batch_size = kRecordsBatch, .seed = 3}, 50).value();
  }
  Experiment run("cpu:1", kRecordsBatch, 0.1, 3, start, 0.9);
  options.summaries = models::AddTrainSummaries(Scope(run.graph), run.step);
  options.summary_every = 4;
  options.evaluate = [&](int64_t step) -> absl::StatusOr<Evaluation> {
    if (absl::Status status = faults.in_evaluation(step); !status.ok()) return status;
    // The loss and something that patience and the best checkpoint go by.
    return Evaluation{.metrics = {{.name = "score", .value = step == 4 ? 0.9 : 0.5, .larger_is_better = true},
                                  {.name = "steps", .value = static_cast<double>(step)}}};
  };
  int64_t step = options.resume.checkpoint == nullptr ? 0 : options.resume.checkpoint->step;
  options.stop = [&] {
    EXPECT_TRUE(faults.after_step(++step).ok());
    return 0;
  };
  return Trainer(*run.session, run.step, *run.input, options).Run();
}

// The lines without times, which differ.
std::vector<std::string> Metrics(const std::string& folder) {
  std::ifstream file(folder + "/metrics.jsonl");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    nlohmann::json json = nlohmann::json::parse(line);
    for (const char* key :
         {"examples_per_second", "seconds_input", "seconds_step", "seconds_evaluate", "seconds_other"})
      json.erase(key);
    lines.push_back(json.dump());
  }
  return lines;
}

// The number of points that TensorBoard shows for each step of each tag: a start event drops earlier points of its step
// and later ones.
std::map<std::string, std::map<int64_t, int>> Shown(const std::string& folder) {
  std::vector<std::pair<fs::file_time_type, std::string>> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().find("tfevents") == std::string::npos) continue;
    files.emplace_back(fs::last_write_time(entry), entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::map<std::string, std::map<int64_t, int>> shown;
  for (const auto& [time, path] : files) {
    const io::EventFile file = ValueOf(io::ReadEventFile(path));
    for (const io::Event& event : file.events) {
      if (event.start) {
        for (auto& [tag, steps] : shown) steps.erase(steps.lower_bound(event.step), steps.end());
      }
      for (const io::SummaryValue& value : event.values) ++shown[value.tag][event.step];
    }
  }
  return shown;
}

class StepRecordsTest : public ::testing::Test {
 protected:
  StepRecordsTest() {
    EXPECT_EQ(Live(undisturbed_.path(), {}), absl::OkStatus());
    EXPECT_EQ(Metrics(undisturbed_.path()).size(), 8u);  // steps 0, 3, 6, 9 and 11; evaluations after 4, 8 and 12
  }
  // One life with the fault, then without it.
  void ExpectMadeUp(const Faults& faults, const std::string& what) {
    SCOPED_TRACE(what);
    const TemporaryFolder folder;
    EXPECT_FALSE(Live(folder.path(), faults).ok()) << "the fault was not met";
    ASSERT_EQ(Live(folder.path(), {}), absl::OkStatus());
    EXPECT_EQ(Metrics(folder.path()), Metrics(undisturbed_.path()));
    EXPECT_EQ(Shown(folder.path()), Shown(undisturbed_.path()));
    for (const char* name : {"latest", "best", "step-00000012.safetensors"}) {
      EXPECT_EQ(Contents(CheckpointFolder(folder.path()) + "/" + name),
                Contents(CheckpointFolder(undisturbed_.path()) + "/" + name))
          << name;
    }
  }

  const TemporaryFolder undisturbed_;
};

TEST_F(StepRecordsTest, AFailedEvaluationIsMadeUp) {
  for (int64_t at = kEvaluateEvery; at <= kRecordsSteps; at += kEvaluateEvery) {
    ExpectMadeUp(
        {.in_evaluation = [=](int64_t step) { return step == at ? absl::UnavailableError("EIO") : absl::OkStatus(); }},
        absl::StrCat("an error in the evaluation after step ", at));
    ExpectMadeUp({.in_evaluation =
                      [=](int64_t step) {
                        if (step == at) throw std::bad_alloc();
                        return absl::OkStatus();
                      }},
                 absl::StrCat("no memory in the evaluation after step ", at));
  }
}

TEST_F(StepRecordsTest, AnEvaluationMayFailMoreThanOnce) {
  const TemporaryFolder folder;
  const Faults faults = {
      .in_evaluation = [](int64_t step) { return step == 8 ? absl::UnavailableError("EIO") : absl::OkStatus(); }};
  for (int life = 0; life < 3; ++life) EXPECT_FALSE(Live(folder.path(), faults).ok());
  ASSERT_EQ(Live(folder.path(), {}), absl::OkStatus());
  EXPECT_EQ(Metrics(folder.path()), Metrics(undisturbed_.path()));
  EXPECT_EQ(Shown(folder.path()), Shown(undisturbed_.path()));
}

TEST_F(StepRecordsTest, AFaultAfterTheRecordsRepeatsNone) {
  for (int64_t at = 1; at <= kRecordsSteps; ++at) {
    ExpectMadeUp({.after_step =
                      [=](int64_t step) {
                        if (step == at) throw std::bad_alloc();
                        return absl::OkStatus();
                      }},
                 absl::StrCat("no memory after step ", at));
  }
}

// The error of a write in the background is met at the next step, before that one's records.
TEST_F(StepRecordsTest, AFailedWriteOfACheckpointLosesNoLine) {
  for (const int64_t at : {3, 4, 7, 8}) {
    const TemporaryFolder folder;
    const std::string latest = CheckpointFolder(folder.path()) + "/latest";
    const Faults faults = {.after_step = [&](int64_t step) {
      if (step != at) return absl::OkStatus();
      // No link can replace a folder with something in it. That of an earlier step may come in between.
      for (std::error_code error; !fs::is_directory(fs::symlink_status(latest));) {
        fs::remove(latest, error);
        fs::create_directories(latest + "/in_the_way", error);
      }
      return absl::OkStatus();
    }};
    EXPECT_FALSE(Live(folder.path(), faults).ok());
    fs::remove_all(latest);
    ASSERT_EQ(Live(folder.path(), {}), absl::OkStatus());
    EXPECT_EQ(Metrics(folder.path()), Metrics(undisturbed_.path())) << at;
    EXPECT_EQ(Shown(folder.path()), Shown(undisturbed_.path())) << at;
    const std::string last = "/step-00000012.safetensors";
    EXPECT_EQ(Contents(CheckpointFolder(folder.path()) + last), Contents(CheckpointFolder(undisturbed_.path()) + last));
  }
}

// Killed after a step that wrote its records, but before the next checkpoint.
TEST_F(StepRecordsTest, TensorBoardShowsTheStepOfACheckpointOnce) {
  for (int64_t at = 1; at < kRecordsSteps; ++at) {
    const TemporaryFolder folder;
    const pid_t child = fork();
    if (child == 0) {
      Live(folder.path(), {.after_step =
                               [=](int64_t step) {
                                 if (step == at) _exit(7);
                                 return absl::OkStatus();
                               }})
          .IgnoreError();
      _exit(1);
    }
    int ended = 0;
    waitpid(child, &ended, 0);
    ASSERT_EQ(WEXITSTATUS(ended), 7);
    ASSERT_EQ(Live(folder.path(), {}), absl::OkStatus());
    EXPECT_EQ(Shown(folder.path()), Shown(undisturbed_.path())) << at;
    EXPECT_EQ(Metrics(folder.path()), Metrics(undisturbed_.path())) << at;
  }
}

TEST(StepRecords, NamesAndValuesComeBack) {
  const StepRecords records{.unlogged = Figures{{"a b\n\"ü", 0.1}, {"", -1e300}},
                            .unevaluated = true,
                            .evaluation = {{"test_loss", 1.0 / 3}}};
  io::Metadata metadata;
  records.Store(metadata);
  const StepRecords back = StepRecords::Load(metadata);
  EXPECT_EQ(back.unlogged, records.unlogged);
  EXPECT_TRUE(back.unevaluated);
  EXPECT_EQ(back.evaluation, records.evaluation);
  const StepRecords none = StepRecords::Load({});
  EXPECT_FALSE(none.unlogged.has_value() || none.unevaluated);
}

// Patience ends the run after step 12; the best was that after step 4.
TEST(RestoreBest, GoesBackToTheVariablesOfTheBestEvaluation) {
  const TemporaryFolder folder;
  TrainerOptions options = Options(folder.path());
  options.steps = 100;
  options.quiet = false;
  options.restore_best = true;
  Experiment run("cpu:2", kRecordsBatch, 0.1, 3, {}, 0.9);
  std::vector<int64_t> evaluated;
  options.evaluate = [&](int64_t step) -> absl::StatusOr<Evaluation> {
    evaluated.push_back(step);
    return Accuracy(step == 4 ? 0.9 : 0.5);
  };
  testing::internal::CaptureStdout();
  Trainer trainer(*run.session, run.step, *run.input, options);
  const absl::Status status = trainer.Run();
  const std::string text = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(trainer.steps(), 12);
  EXPECT_EQ(trainer.best().step(), 4);
  EXPECT_EQ(trainer.evaluation().metrics[0].value, 0.9);
  EXPECT_EQ(evaluated, (std::vector<int64_t>{4, 8, 12, 4}));
  EXPECT_THAT(text, HasSubstr("The best test accuracy 0.9000 was that after step 4."));
  EXPECT_EQ(run.session->ReadVariable(run.step.global_step)->scalar<int64_t>(), 4);
  ASSERT_OK_AND_ASSIGN(const auto best, io::LoadBestCheckpoint(CheckpointFolder(folder.path())));
  Snapshot snapshot;
  ASSERT_TRUE(snapshot.Take(*run.session).ok());
  std::map<std::string, std::vector<double>> saved, restored;
  for (const io::NamedTensor& tensor : best.tensors) saved[tensor.name] = tensor.value.ToDoubles();
  for (const io::NamedTensor& tensor : snapshot.tensors()) restored[tensor.name] = tensor.value.ToDoubles();
  EXPECT_EQ(restored, saved);
}

TEST(RestoreBest, NeedsADirectory) {
  Experiment run("cpu:1", kRecordsBatch, 0.1);
  TrainerOptions options{.steps = 1, .quiet = true, .restore_best = true};
  options.evaluate = [](int64_t) -> absl::StatusOr<Evaluation> { return Accuracy(1); };
  EXPECT_THAT(Trainer(*run.session, run.step, *run.input, options).Run(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("TrainerOptions::directory")));
}

}  // namespace
}  // namespace belfry::trainers
