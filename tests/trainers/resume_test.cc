// Runs that stop and go on: the same bits as those that did not.
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "framework/base/steady_time.h"
#include "framework/data/resume.h"
#include "framework/runtime/saver.h"
#include "tests/framework/base/same_bits.h"
#include "tests/trainers/experiment.h"
#include "trainers/loop/run_directory.h"
#include "trainers/loop/run_in_world.h"
#include "trainers/loop/stop_signals.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 12;  // of 50 examples, so that epochs end with a batch of two
constexpr double kRate = 0.1, kMomentum = 0.9;

class ResumeTest : public ::testing::Test {
 protected:
  std::string Directory(const std::string& name) const { return folder_ / name; }

  // A run to `steps`, which goes on from what is in the directory, if anything. All variables at its end.
  std::vector<io::NamedTensor> Run(const std::string& spec, TrainerOptions options, int64_t steps) {
    absl::StatusOr<io::Checkpoint> checkpoint = absl::NotFoundError("no directory");
    if (!options.directory.empty()) checkpoint = io::LoadLatestCheckpoint(CheckpointFolder(options.directory));
    data::Position start;
    if (checkpoint.ok()) {
      options.resume.checkpoint = &*checkpoint;
      auto position = data::TakePosition(checkpoint->metadata, {.batch_size = kBatch, .seed = 3}, 50);
      EXPECT_TRUE(position.ok()) << position.status();
      start = position.value_or(data::Position{});
    }
    Experiment run(spec, kBatch, kRate, 3, start, kMomentum, replicate_, dtype_);
    options.steps = steps;
    options.quiet = true;
    Trainer trainer(*run.session, run.step, *run.input, options);
    status_ = trainer.Run();
    steps_ = trainer.steps();
    stopped_ = trainer.stopped();
    Snapshot snapshot;
    EXPECT_TRUE(snapshot.Take(*run.session).ok());
    std::vector<io::NamedTensor> variables;
    for (const io::NamedTensor& tensor : snapshot.tensors()) variables.push_back({tensor.name, tensor.value.Clone()});
    return variables;
  }

  static void ExpectSameBits(const std::vector<io::NamedTensor>& a, const std::vector<io::NamedTensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].name, b[i].name);
      EXPECT_TRUE(SameBits(a[i].value, b[i].value)) << a[i].name;
    }
  }

  const TemporaryFolder folder_;
  models::ReplicateOptions replicate_;
  DType dtype_ = DType::kFloat32;
  absl::Status status_;
  int64_t steps_ = 0;
  int stopped_ = 0;
};

TEST_F(ResumeTest, GoesOnBitForBit) {
  for (const std::string spec : {"cpu:1", "cpu:2", "cpu:4"}) {
    const auto straight = Run(spec, {}, 100);
    TrainerOptions options{.directory = Directory(spec), .checkpoint_every = 7};
    Run(spec, options, 60);
    ASSERT_TRUE(status_.ok()) << status_;
    const auto resumed = Run(spec, options, 100);
    ASSERT_TRUE(status_.ok()) << status_;
    EXPECT_EQ(steps_, 100);
    ExpectSameBits(straight, resumed);
  }
}

double NumberOf(const std::vector<io::NamedTensor>& variables, absl::string_view name) {
  for (const io::NamedTensor& tensor : variables) {
    if (tensor.name == name) return tensor.value.ToDoubles()[0];
  }
  ADD_FAILURE() << "no variable " << name;
  return NAN;
}

// From a scale that overflows in float16 it comes down, and goes up again until it overflows once more.
// No directory is none, and not the current one.
TEST_F(ResumeTest, OfNoDirectoryThereIsNoCheckpoint) {
  Run("cpu:1", {.directory = Directory("run")}, 1);
  EXPECT_EQ(FindCheckpoint(Directory("run")).value()->step, 1);
  const fs::path before = fs::current_path();
  fs::current_path(Directory("run"));
  const auto found = FindCheckpoint("");
  fs::current_path(before);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->has_value());
}

TEST_F(ResumeTest, KeepsTheLossScale) {
  dtype_ = DType::kFloat16;
  replicate_.loss_scale = optim::LossScaleOptions{.initial = 0x1p24, .growth_interval = 6};
  for (const std::string spec : {"cpu:1", "cpu:2"}) {
    const auto straight = Run(spec, {}, 100);
    ASSERT_TRUE(status_.ok()) << status_;
    const double steps = NumberOf(straight, "global_step"), skipped = NumberOf(straight, "loss_scale/skipped_steps");
    EXPECT_EQ(steps + skipped, 100);
    EXPECT_GT(skipped, 5);
    EXPECT_LT(skipped, 40);
    EXPECT_LT(NumberOf(straight, "loss_scale"), 0x1p24);
    TrainerOptions options{.log_every = 1, .directory = Directory(spec), .checkpoint_every = 0};
    options.metrics_file = Directory(spec + ".jsonl");
    Run(spec, options, 37);
    ASSERT_TRUE(status_.ok()) << status_;
    const auto resumed = Run(spec, options, 100);
    ASSERT_TRUE(status_.ok()) << status_;
    EXPECT_EQ(steps_, 100);
    ExpectSameBits(straight, resumed);

    std::ifstream file(options.metrics_file);
    std::string line;
    int64_t lines = 0;
    double last_scale = 0, last_skipped = 0;
    while (std::getline(file, line)) {
      const auto json = nlohmann::json::parse(line);
      EXPECT_EQ(json.at("step"), lines++);
      EXPECT_LT(json.at("loss").get<double>(), 5) << "of the loss itself, not scaled";
      if (lines == 1) {
        EXPECT_EQ(json.at("loss_scale"), 0x1p24);
      }
      last_scale = json.at("loss_scale").get<double>();
      last_skipped = json.at("skipped_steps").get<double>();
    }
    EXPECT_EQ(lines, 100);
    EXPECT_GT(last_scale, 1);
    EXPECT_GT(last_skipped, 5);
  }
}

TEST_F(ResumeTest, AScaleThatOnlyOverflowsEndsTheRun) {
  dtype_ = DType::kFloat16;
  replicate_.loss_scale = optim::LossScaleOptions{.initial = 0x1p24, .dynamic = false};
  Run("cpu:1", {}, 1000);
  EXPECT_THAT(status_, StatusIs(absl::StatusCode::kAborted, HasSubstr("loss scale of 16777216")));
  EXPECT_LT(steps_, 200);
}

TEST_F(ResumeTest, GoesOnWithAnotherNumberOfTowers) {
  const auto straight = Run("cpu:1", {}, 100);
  Run("cpu:4", {.directory = Directory("from4")}, 60);
  for (const std::string spec : {"cpu:1", "cpu:2"}) {
    fs::copy(Directory("from4"), Directory(spec), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const auto resumed = Run(spec, {.directory = Directory(spec)}, 100);
    ASSERT_TRUE(status_.ok()) << status_;
    ASSERT_EQ(resumed.size(), straight.size());
    for (size_t i = 0; i < straight.size(); ++i) {
      EXPECT_EQ(resumed[i].name, straight[i].name);
      if (straight[i].value.dtype() != DType::kFloat32) continue;
      for (int64_t k = 0; k < straight[i].value.elements(); ++k) {
        EXPECT_NEAR(resumed[i].value.data<float>()[k], straight[i].value.data<float>()[k], 1e-4) << straight[i].name;
      }
    }
  }
}

TEST_F(ResumeTest, AStopSavesAndGoesOn) {
  const auto straight = Run("cpu:2", {}, 40);
  int asked = 0;
  TrainerOptions options{.directory = Directory("stopped"), .checkpoint_every = 0};
  options.stop = [&] { return ++asked == 13 ? SIGTERM : 0; };
  Run("cpu:2", options, 40);
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(stopped_, SIGTERM);
  EXPECT_EQ(steps_, 13);
  ASSERT_OK_AND_ASSIGN(const auto saved, io::ListCheckpoints(CheckpointFolder(options.directory)));
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved.front().step, 13);
  options.stop = nullptr;
  const auto resumed = Run("cpu:2", options, 40);
  ExpectSameBits(straight, resumed);
}

TEST_F(ResumeTest, TheFirstSignalIsNoted) {
  {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::noted(), 0);
    std::raise(SIGTERM);
    EXPECT_EQ(StopSignals::noted(), SIGTERM);
  }
  const StopSignals again;
  EXPECT_EQ(StopSignals::noted(), 0);
}

TEST_F(ResumeTest, Sigusr1MayComeTwice) {
  const StopSignals signals;
  std::raise(SIGUSR1);
  std::raise(SIGUSR1);
  EXPECT_EQ(StopSignals::noted(), SIGUSR1);
}

TEST_F(ResumeTest, TheTimeLimitIsNotedAndEndsNothing) {
  {
    const StopSignals signals(absl::Milliseconds(1));
    while (StopSignals::noted() == 0) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(StopSignals::noted(), SIGALRM);
    std::raise(SIGALRM);
  }
  const StopSignals again(absl::Hours(1));
  std::raise(SIGINT);
  std::raise(SIGALRM);
  EXPECT_EQ(StopSignals::noted(), SIGINT);
}

// Time in which a process is stopped counts as that of its step, which the message of a deadline says.
TEST(StopSignals, NoteWhenTheProcessGoesOn) {
  const StopSignals signals;
  EXPECT_EQ(StopSignals::went_on(), absl::InfinitePast());
  const absl::Time before = SteadyNow();
  std::raise(SIGCONT);
  EXPECT_EQ(StopSignals::noted(), 0);
  EXPECT_GE(StopSignals::went_on(), before);
  EXPECT_LE(StopSignals::went_on(), SteadyNow());
}

TEST_F(ResumeTest, ASecondSignalEndsTheProgram) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        std::raise(SIGINT);
        if (StopSignals::noted() != SIGINT) std::_Exit(1);
        std::raise(SIGINT);
        std::_Exit(2);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST_F(ResumeTest, MetricsOfStepsThatAreDoneAgainAreTakenOut) {
  const std::string file = Directory("run/metrics.jsonl");
  fs::create_directories(Directory("run"));
  TrainerOptions options{.log_every = 1, .metrics_file = file, .directory = Directory("run")};
  Run("cpu:1", options, 10);
  // As if it had gone on to step 12 and been killed in the middle of a line.
  std::ofstream(file, std::ios::app) << "{\"step\":10,\"loss\":1}\n{\"step\":11,\"loss\":1}\n{\"step\":12,\"lo";
  Run("cpu:1", options, 15);
  ASSERT_TRUE(status_.ok()) << status_;
  std::ifstream lines(file);
  std::vector<int> steps;
  for (std::string line; std::getline(lines, line);) steps.push_back(nlohmann::json::parse(line).at("step"));
  std::vector<int> expected(15);
  for (int i = 0; i < 15; ++i) expected[i] = i;
  EXPECT_EQ(steps, expected);
}

TEST_F(ResumeTest, MetricsOfARunWithoutACheckpointAreTakenOut) {
  const std::string file = Directory("run/metrics.jsonl");
  fs::create_directories(Directory("run"));
  std::ofstream(file) << "{\"step\":0,\"loss\":9}\n{\"step\":1,\"loss\":9}\n";
  Run("cpu:1", {.log_every = 1, .metrics_file = file, .directory = Directory("run/")}, 2);
  ASSERT_TRUE(status_.ok()) << status_;
  std::ifstream lines(file);
  std::vector<int> steps;
  for (std::string line; std::getline(lines, line);) {
    steps.push_back(nlohmann::json::parse(line).at("step"));
    EXPECT_NE(nlohmann::json::parse(line).at("loss"), 9);
  }
  EXPECT_EQ(steps, (std::vector<int>{0, 1}));
}

TEST_F(ResumeTest, TheEvaluationThatARunGoesOnFromStays) {
  TrainerOptions options{.log_every = 0, .directory = Directory("run")};
  options.metrics_file = (fs::path(options.directory) / "metrics.jsonl").string();
  options.evaluate = [](int64_t) -> absl::StatusOr<Evaluation> { return Accuracy(0.5); };
  fs::create_directories(options.directory);
  Run("cpu:1", options, 8);
  Run("cpu:1", options, 12);
  ASSERT_TRUE(status_.ok()) << status_;
  std::ifstream lines(options.metrics_file);
  std::vector<int> steps;
  for (std::string line; std::getline(lines, line);) steps.push_back(nlohmann::json::parse(line).at("step"));
  EXPECT_EQ(steps, (std::vector<int>{8, 12}));
}

TEST_F(ResumeTest, ARunThatIsDoneIsEvaluatedAgainButLoggedOnce) {
  TrainerOptions options{.log_every = 0, .directory = Directory("run")};
  options.metrics_file = (fs::path(options.directory) / "metrics.jsonl").string();
  options.evaluate = [](int64_t) -> absl::StatusOr<Evaluation> { return Evaluation{.metrics = {{"loss", 0.5}}}; };
  fs::create_directories(options.directory);
  for (int life = 0; life < 3; ++life) Run("cpu:1", options, 8);
  ASSERT_TRUE(status_.ok()) << status_;
  std::ifstream file(options.metrics_file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "{\"step\":8,\"test_loss\":0.5}\n");
}

TEST_F(ResumeTest, ARunDoesNotBeginWhereAnotherHasSaved) {
  const TrainerOptions options{.directory = Directory("run")};
  Run("cpu:1", options, 10);
  Experiment again("cpu:1", kBatch, kRate, 3, {}, kMomentum);
  TrainerOptions anew = options;
  anew.steps = 5;
  anew.quiet = true;
  const absl::Status status = Trainer(*again.session, again.step, *again.input, anew).Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(io::LoadLatestCheckpoint(CheckpointFolder(options.directory))->step, 10);
}

TEST_F(ResumeTest, AFileOfTheUsersOwnIsOnlyAppendedTo) {
  const std::string file = Directory("shared.jsonl");
  std::ofstream(file) << "{\"step\":999,\"of\":\"another\"}\n";
  const TrainerOptions options{.log_every = 5, .metrics_file = file, .directory = Directory("run")};
  Run("cpu:1", options, 5);
  Run("cpu:1", options, 10);
  std::ifstream lines(file);
  std::string first;
  std::getline(lines, first);
  EXPECT_THAT(first, HasSubstr("another"));
}

TEST_F(ResumeTest, WhatWasTrainedIsSavedIfOnlyTheEvaluationFails) {
  TrainerOptions options{.directory = Directory("run"), .checkpoint_every = 0};
  options.evaluate_every = 7;
  options.evaluate = [](int64_t) -> absl::StatusOr<Evaluation> { return absl::UnavailableError("no test data"); };
  Run("cpu:2", options, 20);
  EXPECT_THAT(status_.message(), AllOf(HasSubstr("no test data"), HasSubstr("the last good checkpoint")));
  ASSERT_OK_AND_ASSIGN(const auto saved, io::LoadLatestCheckpoint(CheckpointFolder(options.directory)));
  EXPECT_EQ(saved.step, 7);
}

TEST_F(ResumeTest, TheLastCheckpointIsNoPartOfAnErrorsTable) {
  TrainerOptions options{.directory = Directory("run")};
  options.evaluate = [](int64_t) -> absl::StatusOr<Evaluation> {
    return absl::ResourceExhaustedError("The step needs 9 MiB\nMiB   total\n");
  };
  Run("cpu:1", options, 3);
  EXPECT_THAT(status_.message(), HasSubstr("The step needs 9 MiB\nMiB   total\nthe last good checkpoint is /"));
}

TEST_F(ResumeTest, ACheckpointOfAnotherModelChangesNothing) {
  Run("cpu:1", {.directory = Directory("run")}, 5);
  ASSERT_OK_AND_ASSIGN(io::Checkpoint checkpoint, io::LoadLatestCheckpoint(CheckpointFolder(Directory("run"))));
  Experiment other("cpu:1", kBatch, kRate);  // without momentum, so without its slots
  Trainer trainer(*other.session, other.step, *other.input,
                  {.steps = 9, .quiet = true, .resume = {.checkpoint = &checkpoint}});
  EXPECT_THAT(trainer.Run(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Momentum")));
  EXPECT_FALSE(other.session->ReadVariable(other.step.global_step).ok());  // nothing was written
}

TEST_F(ResumeTest, AnErrorNamesTheLastGoodCheckpoint) {
  Experiment run("cpu:2", kBatch, 1e30);
  const TrainerOptions options{.steps = 100, .quiet = true, .directory = Directory("diverges"), .checkpoint_every = 1};
  const absl::Status status = Trainer(*run.session, run.step, *run.input, options).Run();
  EXPECT_FALSE(status.ok());
  const auto good = io::LoadLatestCheckpoint(CheckpointFolder(options.directory));
  if (good.ok()) {
    EXPECT_THAT(status.message(), HasSubstr("the last good checkpoint is " + good->path));
    for (const io::NamedTensor& tensor : good->tensors) {
      if (tensor.value.dtype() != DType::kFloat32) continue;
      for (const float value : tensor.value.span<float>()) ASSERT_TRUE(std::isfinite(value)) << tensor.name;
    }
  } else {
    EXPECT_THAT(status.message(), HasSubstr("there is no checkpoint in "));
  }
}

TEST_F(ResumeTest, PatienceEndsARunThatGetsNoBetterAndIsRemembered) {
  TrainerOptions options{.directory = Directory("run")};
  options.evaluate_every = 5;
  options.patience = 3;
  double accuracy = 0.9;
  options.evaluate = [&](int64_t) -> absl::StatusOr<Evaluation> { return Accuracy(accuracy -= 0.1); };
  Run("cpu:1", options, 10);  // two evaluations, one of them worse
  EXPECT_EQ(steps_, 10);
  Run("cpu:1", options, 100);  // two more
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(steps_, 20);
  Run("cpu:1", options, 100);  // there is nothing left to do
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(steps_, 20);
  ASSERT_OK_AND_ASSIGN(const auto best, io::LoadBestCheckpoint(CheckpointFolder(options.directory)));
  EXPECT_EQ(best.step, 5);
}

TEST_F(ResumeTest, ALossThatGrowsEndsARunAndItsSmallestIsTheBest) {
  TrainerOptions options{.directory = Directory("run")};
  options.evaluate_every = 5;
  options.patience = 2;
  std::vector<double> losses = {NAN, 3, 2, 2.5, 2};
  size_t next = 0;
  options.evaluate = [&](int64_t) -> absl::StatusOr<Evaluation> {
    return Evaluation{.examples = 1, .metrics = {{"loss", losses[next++]}}};
  };
  Run("cpu:1", options, 20);
  Run("cpu:1", options, 100);
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(steps_, 25);
  ASSERT_OK_AND_ASSIGN(const auto best, io::LoadBestCheckpoint(CheckpointFolder(options.directory)));
  EXPECT_EQ(best.step, 15);
  EXPECT_EQ(best.metric->value, 2);
}

TEST_F(ResumeTest, AnotherMetricStartsAnew) {
  TrainerOptions options{.directory = Directory("run")};
  options.evaluate = [](int64_t) -> absl::StatusOr<Evaluation> { return Accuracy(0.9); };
  Run("cpu:1", options, 5);
  options.evaluate = [](int64_t) -> absl::StatusOr<Evaluation> { return Evaluation{.metrics = {{"loss", 7}}}; };
  Run("cpu:1", options, 10);
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(io::LoadBestCheckpoint(CheckpointFolder(options.directory))->step, 10);
}

TEST_F(ResumeTest, TowersThatDriftApartEndTheRun) {
  Experiment run("cpu:2", kBatch, kRate);
  ASSERT_TRUE(run.session->RunTarget(run.step.initialize).ok());
  const Variable& weights = run.step.towers[1].variables[0];
  Tensor value = run.session->ReadVariable(weights).value();
  value.data<float>()[0] += 1e-6f;
  ASSERT_TRUE(run.session->WriteVariable(weights, value).ok());
  const absl::Status status =
      Trainer(*run.session, run.step, *run.input, {.steps = 10, .quiet = true, .check_replicas_every = 4}).Run();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr(weights.name())));
}

// Positions of another run's data, or of none, would train on examples twice and leave others out.
TEST_F(ResumeTest, AnInputThatStandsElsewhereIsAnError) {
  Run("cpu:1", {.directory = Directory("run")}, 7);
  ASSERT_OK_AND_ASSIGN(io::Checkpoint checkpoint, io::LoadLatestCheckpoint(CheckpointFolder(Directory("run"))));
  TrainerOptions options{.steps = 9, .quiet = true, .resume = {.checkpoint = &checkpoint}};
  const auto resume = [&](const data::Position& start, int64_t batch = kBatch, uint64_t seed = 3) {
    Experiment run("cpu:1", batch, kRate, seed, start, kMomentum);
    return Trainer(*run.session, run.step, *run.input, options).Run();
  };
  // Five batches an epoch.
  EXPECT_THAT(resume({}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("data.batch 2, data.epoch 1"),
                                         HasSubstr("data.batch 0, data.epoch 0"), HasSubstr("TakePosition"))));
  EXPECT_FALSE(resume({.epoch = 1, .batch = 3}).ok());
  EXPECT_THAT(resume({.epoch = 1, .batch = 2}, kBatch, 4).message(), HasSubstr("data.seed 4"));
  EXPECT_EQ(resume({.epoch = 1, .batch = 2}), absl::OkStatus());
  // 24 examples of the epoch are seen: four batches of six.
  EXPECT_EQ(resume({.epoch = 1, .batch = 4}, 6), absl::OkStatus());
  EXPECT_FALSE(resume({.epoch = 1, .batch = 2}, 6).ok());
  EXPECT_FALSE(resume({.epoch = 1, .batch = 4}, 6, 4).ok()) << "another seed, too";
  options.resume.other_data = true;
  EXPECT_EQ(resume({}), absl::OkStatus());
}

}  // namespace
}  // namespace belfry::trainers
