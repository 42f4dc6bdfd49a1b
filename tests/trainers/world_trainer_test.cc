// Trainers in several processes: worlds of threads.
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/world_collective.h"
#include "framework/data/resume.h"
#include "framework/runtime/saver.h"
#include "ops/summary.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/trainers/experiment.h"
#include "trainers/loop/run_directory.h"
#include "trainers/loop/task_sync.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kTowers = 4;
constexpr absl::Duration kPatience = absl::Seconds(60);

std::string NewFolder() { return absl::StrCat(::testing::TempDir(), "world_trainer", std::random_device()()); }

std::string LastCheckpoint(const std::string& folder) {
  const auto checkpoints = io::ListCheckpoints(CheckpointFolder(folder));
  return checkpoints.ok() && !checkpoints->empty() ? checkpoints->back().path : "";
}

// The values of a key of a metrics file, where it has them.
std::vector<double> ValuesOf(const std::string& key, const std::string& metrics_file) {
  std::vector<double> values;
  std::ifstream file(metrics_file);
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object.contains(key)) values.push_back(object.at(key));
  }
  return values;
}

// The results of a task.
struct Result {
  double loss = 0;
  int64_t steps = 0;
  int stopped = 0;
  Classification evaluation;
};

// Trains kTowers towers, dealt to the tasks as `layout` says. `change` may set options of one task, and has its
// session.
using Change = std::function<void(World& world, Experiment& run, TrainerOptions& options)>;
std::vector<absl::Status> Train(const std::vector<int>& layout, const TrainerOptions& options, const Change& change,
                                std::vector<Result>* results = nullptr, bool sharded = false,
                                DType dtype_of_last = DType::kFloat32) {
  if (results != nullptr) results->resize(layout.size());
  return RunRanks(static_cast<int>(layout.size()), {.tell_failures = true}, [&](World& world) -> absl::Status {
    const int task = world.rank();
    ASSIGN_OR_RETURN(const TowersOfWorld towers, TowersOfWorld::Gather(world, layout[task], In(kPatience)));
    data::Position start;
    if (options.resume.checkpoint != nullptr) {
      ASSIGN_OR_RETURN(start, data::TakePosition(options.resume.checkpoint->metadata,
                                                 {.batch_size = 16, .towers = kTowers, .seed = 3}, 50));
    }
    Experiment run(
        absl::StrCat("cpu:", layout[task]), /*batch=*/16, /*learning_rate=*/0.2, /*seed=*/3, start,
        /*momentum=*/0.9,
        {.first_tower = towers.first[task], .towers = kTowers, .bucket_bytes = 256, .shard_optimizer = sharded},
        task + 1 == world.size() ? dtype_of_last : DType::kFloat32, WorldCollectives(world, towers));
    TrainerOptions own = options;
    own.world = &world;
    own.tasks.timeout = kPatience;
    own.quiet = true;
    Classification evaluation;
    own.evaluate = [&](int64_t) -> absl::StatusOr<Evaluation> {
      ASSIGN_OR_RETURN(evaluation,
                       run.evaluator->Run(*run.session, *run.dataset, {}, /*batch_size=*/7, &world, kPatience));
      return evaluation;
    };
    io::Checkpoint without_tensors;
    if (task > 0 && options.resume.checkpoint != nullptr) {
      without_tensors = {.path = options.resume.checkpoint->path, .metadata = options.resume.checkpoint->metadata};
      own.resume.checkpoint = &without_tensors;
    }
    if (task > 0) own.directory.clear();  // of which only task 0 needs one
    if (change) change(world, run, own);
    const auto train = [&] {
      Trainer trainer(*run.session, run.step, *run.input, own);
      RETURN_IF_ERROR(trainer.Run());
      if (results != nullptr) {
        (*results)[task] = {trainer.loss(), trainer.steps(), trainer.stopped(), evaluation};
      }
      return absl::OkStatus();
    };
    const absl::Status status = train();
    if (absl::IsDeadlineExceeded(status)) {
      return absl::Status(status.code(), absl::StrCat(status.message(), "\n", world.RollCall()));
    }
    RETURN_IF_ERROR(status);
    return world.Close(In(kPatience));
  });
}

TEST(WorldTrainer, EveryLayoutWritesTheSameCheckpointAndEvaluatesAlike) {
  std::string expected;
  std::vector<double> first_accuracies;
  Result first;
  const std::vector<std::vector<int>> layouts = {{4}, {2, 2}, {1, 1, 1, 1}, {1, 3}};
  for (size_t i = 0; i < 2 * layouts.size(); ++i) {
    const std::vector<int>& layout = layouts[i / 2];
    const bool sharded = i % 2 == 1;
    SCOPED_TRACE(absl::StrCat(layout.size(), " tasks, sharded: ", sharded));
    const std::string folder = NewFolder();
    TrainerOptions options{.steps = 15, .metrics_file = folder + "/metrics.jsonl", .evaluate_every = 10};
    options.directory = folder;
    options.check_replicas_every = 5;
    std::filesystem::create_directories(folder);
    std::vector<Result> results;
    for (const absl::Status& status : Train(layout, options, nullptr, &results, sharded)) {
      ASSERT_TRUE(status.ok()) << status;
    }
    const std::string checkpoint = Contents(LastCheckpoint(folder));
    ASSERT_FALSE(checkpoint.empty());
    if (expected.empty()) {
      expected = checkpoint;
      first = results[0];
      EXPECT_EQ(first.evaluation.labels, 50);
    }
    EXPECT_TRUE(checkpoint == expected);
    const std::vector<double> accuracies = ValuesOf("accuracy", options.metrics_file);
    EXPECT_EQ(accuracies.size(), 3u);  // of steps 0, 10, 14
    if (first_accuracies.empty()) first_accuracies = accuracies;
    EXPECT_EQ(accuracies, first_accuracies);
    for (const Result& result : results) {
      EXPECT_EQ(result.loss, first.loss);
      EXPECT_EQ(result.evaluation.loss, first.evaluation.loss);
      EXPECT_EQ(result.evaluation.accuracy, first.evaluation.accuracy);
      EXPECT_EQ(result.evaluation.confusion, first.evaluation.confusion);
    }
  }
}

// Task 0 alone reads the weights.
TEST(WorldTrainer, BeginsWithWeightsInEveryLayout) {
  const std::string first = NewFolder();
  TrainerOptions options{.steps = 5};
  options.directory = first;
  for (const absl::Status& status : Train({4}, options, nullptr)) ASSERT_TRUE(status.ok()) << status;
  std::string expected;
  for (const std::vector<int>& layout : std::vector<std::vector<int>>{{4}, {2, 2}, {1, 3}}) {
    options.directory = NewFolder();
    options.resume.init_from = first;
    const auto forget = [](World& world, Experiment&, TrainerOptions& own) {
      if (world.rank() > 0) own.resume.init_from = "/nowhere";
    };
    for (const absl::Status& status : Train(layout, options, forget)) ASSERT_TRUE(status.ok()) << status;
    const std::string checkpoint = Contents(LastCheckpoint(options.directory));
    ASSERT_FALSE(checkpoint.empty());
    if (expected.empty()) expected = checkpoint;
    EXPECT_TRUE(checkpoint == expected) << layout.size() << " tasks";
  }
  EXPECT_FALSE(expected == Contents(LastCheckpoint(first)));
}

TEST(WorldTrainer, GoesOnWithAnyNumberOfTasks) {
  const std::string whole = NewFolder(), parts = NewFolder();
  TrainerOptions options{.steps = 12};
  options.directory = whole;
  for (const absl::Status& status : Train({4}, options, nullptr)) ASSERT_TRUE(status.ok()) << status;
  options.directory = parts;
  options.steps = 4;
  for (const std::vector<int>& layout : std::vector<std::vector<int>>{{2, 2}, {4}, {1, 1, 2}}) {
    io::Checkpoint checkpoint;
    if (!LastCheckpoint(parts).empty()) {
      ASSERT_OK_AND_ASSIGN(checkpoint, io::LoadLatestCheckpoint(CheckpointFolder(parts)));
      options.resume.checkpoint = &checkpoint;
    }
    const bool sharded = layout.size() > 1;
    for (const absl::Status& status : Train(layout, options, nullptr, nullptr, sharded)) {
      ASSERT_TRUE(status.ok()) << status;
    }
    options.steps += 4;
    options.resume.checkpoint = nullptr;
  }
  EXPECT_TRUE(Contents(LastCheckpoint(whole)) == Contents(LastCheckpoint(parts)));
}

TEST(WorldTrainer, ASignalToOneTaskStopsAllAfterTheSameStep) {
  for (const int noting : {0, 1}) {
    const std::string folder = NewFolder();
    TrainerOptions options{.steps = 1'000'000};
    options.directory = folder;
    std::vector<Result> results;
    const auto statuses = Train(
        {2, 2}, options,
        [&](World& world, Experiment&, TrainerOptions& own) {
          const absl::Time at = SteadyNow() + absl::Milliseconds(300);
          if (world.rank() == noting) own.stop = [at] { return SteadyNow() < at ? 0 : SIGTERM; };
        },
        &results);
    for (const absl::Status& status : statuses) ASSERT_TRUE(status.ok()) << status;
    EXPECT_GT(results[0].steps, 0);
    EXPECT_EQ(results[0].steps, results[1].steps);
    EXPECT_EQ(results[0].stopped, SIGTERM);
    EXPECT_EQ(results[1].stopped, SIGTERM);
    EXPECT_THAT(LastCheckpoint(folder), HasSubstr(absl::StrCat(results[0].steps)));
  }
}

TEST(WorldTrainer, UnlikeSettingsAreAnErrorThatShowsBoth) {
  const auto statuses = Train({2, 2}, {.steps = 5}, [](World& world, Experiment&, TrainerOptions& own) {
    if (world.rank() == 1) own.evaluate_every = 3;
  });
  EXPECT_THAT(statuses[0].message(), AllOf(HasSubstr("different settings"), HasSubstr("'evaluate_every=0' in task 0"),
                                           HasSubstr("'evaluate_every=3' in task 1")));
}

TEST(WorldTrainer, UnlikeModelsAreAnErrorThatShowsBoth) {
  // Their variables and collectives are alike.
  const auto statuses = Train({2, 2}, {.steps = 5}, nullptr, nullptr, false, DType::kBFloat16);
  EXPECT_THAT(statuses[0].message(), AllOf(HasSubstr("different models: '"), HasSubstr("tests/trainers/experiment.h:"),
                                           HasSubstr("bfloat16")));
}

TEST(WorldTrainer, SummariesOfTheTowersAreNoneOfTheModel) {
  std::vector<std::vector<std::string>> lines;
  for (const int first : {0, 2}) {
    Experiment run("cpu:2", 16, 0.1, 3, {}, 0, {.first_tower = first, .towers = kTowers});
    const models::TrainTower& tower = run.step.towers[0];
    ops::HistogramSummary(tower.scope, tower.loss.name(), tower.loss);
    lines.push_back(ModelLines(run.graph, tower));
  }
  EXPECT_GT(lines[0].size(), 5u);
  EXPECT_EQ(lines[0], lines[1]);
}

TEST(WorldTrainer, UnlikeDataIsAnError) {
  const auto statuses = Train({2, 2}, {.steps = 5}, [](World& world, Experiment& run, TrainerOptions&) {
    if (world.rank() == 0) return;
    auto other = Blobs(50, 99);
    run.input = data::Prefetcher::Create(*other, run.input->options()).value();
    run.dataset = std::move(other);  // after the input that reads the old one
  });
  EXPECT_THAT(statuses[0].message(), HasSubstr("checksum of 50 of them"));
}

TEST(WorldTrainer, VariablesThatDifferBetweenTasksAreFound) {
  TrainerOptions options{.steps = 50};
  options.check_replicas_every = 5;
  const auto statuses = Train({2, 2}, options, [](World& world, Experiment& run, TrainerOptions& own) {
    if (world.rank() == 0) return;
    // All replicas of the task, so that they agree among themselves.
    own.stop = [&run, done = false]() mutable {
      if (std::exchange(done, true)) return 0;
      for (const Variable& variable : run.graph.variables()) {
        if (!variable.trainable()) continue;
        Tensor value = run.session->ReadVariable(variable)->Clone();
        value.data<float>()[0] += 1;
        EXPECT_TRUE(run.session->WriteVariable(variable, value).ok());
      }
      return 0;
    };
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDataLoss) << statuses[0];
  EXPECT_THAT(statuses[0].message(), AllOf(HasSubstr("different variables"), HasSubstr("in task 1")));
}

TEST(WorldTrainer, ATaskThatStopsBetweenStepsIsMissedInTheTimeOfAStep) {
  TrainerOptions options{.steps = 1000};
  options.tasks.step_timeout = absl::Milliseconds(200);
  const absl::Time begin = SteadyNow();
  const auto statuses = Train({2, 2}, options, [](World& world, Experiment&, TrainerOptions& own) {
    own.stop = [&world, steps = 0]() mutable {
      if (world.rank() == 1 && ++steps == 1) absl::SleepFor(absl::Seconds(3));
      return 0;
    };
  });
  EXPECT_LT(SteadyNow() - begin, kPatience / 2);
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded) << statuses[0];
  EXPECT_THAT(statuses[0].message(),
              AllOf(HasSubstr("no answer before the deadline from task 1"), HasSubstr(": has ended with an error"),
                    HasSubstr("has been between two steps")));
  EXPECT_FALSE(statuses[1].ok());
}

TEST(WorldTrainer, AnErrorInOneTaskReachesTheOthers) {
  const auto statuses =
      Train({2, 2}, {.steps = 1000, .evaluate_every = 20}, [](World& world, Experiment&, TrainerOptions& own) {
        if (world.rank() == 1)
          own.evaluate = [](int64_t) { return absl::DataLossError("test_batch.bin is too short"); };
      });
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(statuses[0].message(), AllOf(HasSubstr("task 1"), HasSubstr("test_batch.bin is too short")));
}

}  // namespace
}  // namespace belfry::trainers
