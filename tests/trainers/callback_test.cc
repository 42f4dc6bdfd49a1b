// Callbacks of a program's own: what they see and when, and what they can do to a run.
#include "trainers/callbacks/callback.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/collective/world_collective.h"
#include "framework/data/resume.h"
#include "ops/training.h"
#include "optim/schedule.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/trainers/experiment.h"
#include "trainers/loop/run_directory.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes down what it is called for; `at` may act on it, or fail.
class Recorder final : public Callback {
 public:
  using Action = std::function<absl::Status(const std::string& event, TrainingState& state)>;
  explicit Recorder(Action at = nullptr) : at_(std::move(at)) {}

  absl::Status OnStart(TrainingState& state) override { return Note("start", state); }
  absl::Status OnStep(TrainingState& state) override {
    losses.push_back(state.results.loss);
    EXPECT_EQ(state.results.step, state.steps - 1);
    EXPECT_LE(state.input_began, state.began);
    EXPECT_LE(state.began, state.ended);
    return Note("step", state);
  }
  absl::Status OnEvaluation(TrainingState& state) override { return Note("evaluation", state); }
  absl::Status OnSave(TrainingState& state) override { return Note("save", state); }
  absl::Status OnEnd(TrainingState& state) override { return Note(state.status.ok() ? "end" : "error", state); }
  absl::Status OnPrepared(TrainingState&, absl::string_view name, const Plan&) override {
    details.emplace_back(name);
    return absl::OkStatus();
  }
  void OnBatch(const data::Batch& batch) override { details.push_back(absl::StrCat("batch of ", batch.examples())); }
  absl::Status BeforeSave(TrainingState& state, bool) override {
    details.push_back(absl::StrCat("before ", state.steps));
    return at_ == nullptr ? absl::OkStatus() : at_("before", state);
  }
  absl::Status OnWritten(TrainingState& state) override {
    EXPECT_TRUE(std::filesystem::exists(state.written));
    ++written;
    return absl::OkStatus();
  }
  void OnMessage(absl::string_view text) override { messages.emplace_back(text); }
  void Store(const TrainingState& state, io::Metadata& metadata) const override {
    metadata["recorder.steps"] = absl::StrCat(state.steps);
  }
  void Load(const io::Metadata& metadata) override {
    EXPECT_TRUE(events.empty());
    loaded = metadata.at("recorder.steps");
  }

  std::vector<std::string> events, messages, details;  // details: of the events that few callbacks need
  int written = 0;                                     // files
  std::vector<double> losses;
  std::string loaded;

 private:
  absl::Status Note(const std::string& event, TrainingState& state) {
    events.push_back(absl::StrCat(event, " ", state.steps));
    return at_ == nullptr ? absl::OkStatus() : at_(event, state);
  }
  const Action at_;
};

absl::Status Train(TrainerOptions options, Callback& callback, const std::string& folder = "") {
  options.callbacks = {&callback};
  options.directory = folder;
  options.quiet = true;
  absl::StatusOr<io::Checkpoint> last = io::LoadLatestCheckpoint(CheckpointFolder(folder));
  data::Position start;
  if (!folder.empty() && last.ok()) {
    options.resume.checkpoint = &*last;
    start = data::TakePosition(last->metadata, {.batch_size = 10, .seed = 3}, 50).value();
  }
  Experiment run("cpu:1", 10, 0.1, 3, start);
  return Trainer(*run.session, run.step, *run.input, options).Run();
}

absl::StatusOr<Evaluation> HalfRight(int64_t) { return Accuracy(0.5); }

TEST(Callback, SeesTheEventsInTheirOrder) {
  const TemporaryFolder folder;
  Recorder recorder([](const std::string& event, TrainingState& state) {
    if (event == "evaluation") {
      EXPECT_EQ(state.evaluation.metrics[0].value, 0.5);
    }
    if (event == "save") {
      EXPECT_THAT(state.checkpoint, HasSubstr(absl::StrCat("step-0000000", state.steps)));
    }
    if (event == "end") {
      EXPECT_TRUE(std::filesystem::exists(state.checkpoint));
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(
      Train({.steps = 3, .evaluate = HalfRight, .evaluate_every = 2, .summary_every = 0}, recorder, folder / "run"),
      absl::OkStatus());
  EXPECT_THAT(recorder.details,
              ElementsAre("training", "batch of 10", "batch of 10", "before 2", "batch of 10", "before 3"));
  EXPECT_EQ(recorder.written, 2);
  EXPECT_THAT(recorder.events, ElementsAre("start 0", "step 1", "step 2", "evaluation 2", "save 2", "step 3",
                                           "evaluation 3", "save 3", "end 3"));
}

TEST(Callback, KeepsWhatItStores) {
  const TemporaryFolder folder;
  Recorder first, second;
  EXPECT_EQ(Train({.steps = 2}, first, folder / "run"), absl::OkStatus());
  EXPECT_EQ(first.loaded, "");
  EXPECT_EQ(Train({.steps = 4}, second, folder / "run"), absl::OkStatus());
  EXPECT_EQ(second.loaded, "2");
  EXPECT_EQ(second.events[0], "start 2");
}

TEST(Callback, EndsTheRunAfterTheStep) {
  const TemporaryFolder folder;
  for (const std::string when : {"start", "step", "evaluation"}) {
    Recorder recorder([&](const std::string& event, TrainingState& state) {
      if (event == when && (state.steps == 4 || when == "start")) state.End("enough");
      return absl::OkStatus();
    });
    EXPECT_EQ(Train({.steps = 9, .evaluate = HalfRight, .evaluate_every = 2}, recorder, folder / when),
              absl::OkStatus());
    const int steps = when == "start" ? 0 : 4;
    EXPECT_EQ(recorder.events.back(), absl::StrCat("end ", steps));
    EXPECT_THAT(recorder.messages, Contains(absl::StrCat("Stopped after step ", steps, ": enough.")));
    if (steps > 0) {
      EXPECT_THAT(recorder.events, Contains("save 4"));
    }
  }
}

TEST(Callback, ThatEndsTheRunAfterAStepHasItEvaluated) {
  const TemporaryFolder folder;
  Recorder recorder([&](const std::string& event, TrainingState& state) {
    if (event == "step" && state.steps == 3) state.End("enough");
    return absl::OkStatus();
  });
  EXPECT_EQ(Train({.steps = 9, .evaluate = HalfRight, .evaluate_every = 2}, recorder, folder / "run"),
            absl::OkStatus());
  EXPECT_THAT(recorder.events, ElementsAre("start 0", "step 1", "step 2", "evaluation 2", "save 2", "step 3",
                                           "evaluation 3", "save 3", "end 3"));
}

TEST(Callback, AnErrorSavesTheStepAndAnEvaluationIsMadeUp) {
  const TemporaryFolder folder;
  const TrainerOptions options{.steps = 6, .evaluate = HalfRight, .evaluate_every = 2};
  for (const std::string when : {"step", "evaluation"}) {
    Recorder failing([&](const std::string& event, TrainingState& state) {
      return event == when && state.steps == 4 ? absl::UnavailableError("no network") : absl::OkStatus();
    });
    EXPECT_THAT(Train(options, failing, folder / when),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no network; the last good checkpoint is ")));
    EXPECT_EQ(failing.events.back(), "error 4");
    Recorder second;
    EXPECT_EQ(Train(options, second, folder / when), absl::OkStatus());
    EXPECT_EQ(second.events[0], "start 4");
    EXPECT_EQ(second.events[1], "evaluation 4");
  }
}

TEST(Callback, AnErrorBeforeACheckpointDoesNotKeepItFromBeingSaved) {
  const TemporaryFolder folder;
  Recorder failing([&](const std::string& event, TrainingState& state) {
    return event == "before" && state.steps == 2 ? absl::UnavailableError("no network") : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsUnavailable(Train({.steps = 4, .checkpoint_every = 2}, failing, folder / "run")));
  EXPECT_EQ(failing.events.back(), "error 2");
  EXPECT_EQ(io::LoadLatestCheckpoint(CheckpointFolder(folder / "run")).value().step, 2);
}

TEST(Callback, AnErrorAtTheStartAndAtTheEndIsThatOfTheRun) {
  for (const std::string when : {"start", "end"}) {
    Recorder failing([&](const std::string& event, TrainingState&) {
      return event == when ? absl::UnavailableError("no network") : absl::OkStatus();
    });
    EXPECT_EQ(Train({.steps = 1}, failing), absl::UnavailableError("no network"));
    EXPECT_EQ(failing.events.size(), when == "start" ? 1u : 3u);
  }
}

TEST(Callback, GetsTheMessages) {
  Recorder recorder([](const std::string& event, TrainingState& state) {
    if (event == "step") state.Print("hello");
    return absl::OkStatus();
  });
  EXPECT_EQ(Train({.steps = 1}, recorder), absl::OkStatus());
  EXPECT_THAT(recorder.messages, ElementsAre("hello"));
}

TEST(Callback, MayTraceSteps) {
  class Tracing final : public Callback {
   public:
    absl::Status OnStep(TrainingState& state) override {
      EXPECT_EQ(state.trace != nullptr, state.steps == 3);
      return absl::OkStatus();
    }
    bool WantsTrace(int64_t step) override { return step == 2; }
  };
  Tracing tracing;
  EXPECT_EQ(Train({.steps = 4}, tracing), absl::OkStatus());
}

// Sets the learning rate to zero: the loss of each batch then comes again in every epoch.
TEST(Callback, SetsTheLearningRate) {
  const auto dataset = Blobs(50, 3);
  const DeviceSet devices = DeviceSet::Open("cpu:2", {.cpu_threads = 1}).value();
  const auto input = data::Prefetcher::Create(*dataset, {.batch_size = 50, .towers = 2, .shuffle = false}).value();
  Graph graph(BuiltinOps());
  const auto model = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    models::AddCrossEntropy(tower, models::Dense(tower, "logits", batch["point"], kClasses), batch["label"]);
    return models::TotalLoss(tower);
  };
  const auto step = models::ReplicateTowers(Scope(graph), devices, *input, model,
                                            optim::Momentum({.learning_rate = optim::Adjustable(0.25)}));
  const auto session = Session::Create(graph, devices).value();
  std::vector<double> rates;
  Recorder recorder([&](const std::string& event, TrainingState& state) {
    if (event != "step") return absl::OkStatus();
    rates.push_back(state.results.learning_rate);
    return state.steps == 3 ? optim::SetLearningRate(state.session, 0) : absl::OkStatus();
  });
  TrainerOptions options{.steps = 6, .quiet = true, .check_replicas_every = 1};
  options.callbacks = {&recorder};
  EXPECT_EQ(Trainer(*session, step, *input, options).Run(), absl::OkStatus());
  EXPECT_THAT(rates, ElementsAre(0.25, 0.25, 0.25, 0, 0, 0));
  EXPECT_GT(recorder.losses[2], recorder.losses[3]);
  EXPECT_EQ(recorder.losses[3], recorder.losses[5]);
}

// The norm is that of the change of the variables, which is the gradient times the rate.
TEST(Callback, SeesAScalarThatTheProgramAppends) {
  constexpr double kRate = 0.25;
  Experiment run("cpu:2", 25, kRate);
  std::vector<Output> gradients;
  for (const optim::GradientAndVariable& pair : run.step.gradients) gradients.push_back(pair.gradient);
  run.step.metrics.push_back({"gradient_norm", ops::GlobalNorm(Scope(run.graph), gradients)});
  std::vector<double> before, norms;
  Recorder recorder([&](const std::string& event, TrainingState& state) -> absl::Status {
    if (event != "start" && event != "step") return absl::OkStatus();
    std::vector<double> now;
    for (const auto& [gradient, variable, indices] : run.step.gradients) {
      ASSIGN_OR_RETURN(const Tensor value, state.session.ReadVariable(variable));
      for (const double x : value.ToDoubles()) now.push_back(x);
    }
    double squares = 0;
    for (size_t i = 0; i < before.size(); ++i) squares += std::pow((now[i] - before[i]) / kRate, 2);
    before = now;
    if (event == "start") return absl::OkStatus();
    EXPECT_EQ(state.results.metrics.back().name, "gradient_norm");
    norms.push_back(state.results.metrics.back().value);
    EXPECT_NEAR(norms.back(), std::sqrt(squares), 1e-4);
    return absl::OkStatus();
  });
  TrainerOptions options{.steps = 4, .quiet = true};
  options.callbacks = {&recorder};
  EXPECT_EQ(Trainer(*run.session, run.step, *run.input, options).Run(), absl::OkStatus());
  EXPECT_EQ(norms.size(), 4);
}

// One task asks; all end after the same step, with its reason.
TEST(Callback, OfOneTaskEndsAll) {
  for (const std::string when : {"start", "step", "evaluation"}) {
    std::vector<int64_t> steps(2);
    std::vector<std::string> messages;
    const auto results = RunRanks(2, {.tell_failures = true}, [&](World& world) -> absl::Status {
      ASSIGN_OR_RETURN(const TowersOfWorld towers, TowersOfWorld::Gather(world, 1, In(absl::Seconds(60))));
      Experiment run("cpu:1", 16, 0.2, 3, {}, 0, {.first_tower = world.rank(), .towers = 2}, DType::kFloat32,
                     WorldCollectives(world, towers));
      Recorder recorder([&](const std::string& event, TrainingState& state) {
        if (world.rank() == 1 && event == when && (when == "start" || state.steps == 4)) state.End("one is enough");
        return absl::OkStatus();
      });
      TrainerOptions options{.world = &world, .steps = 100'000, .quiet = true, .evaluate = HalfRight};
      options.evaluate_every = 2;
      options.callbacks = {&recorder};
      Trainer trainer(*run.session, run.step, *run.input, options);
      RETURN_IF_ERROR(trainer.Run());
      steps[world.rank()] = trainer.steps();
      if (world.rank() == 0) messages = recorder.messages;
      return world.Close(In(absl::Seconds(60)));
    });
    for (const absl::Status& status : results) ASSERT_EQ(status, absl::OkStatus());
    EXPECT_EQ(steps[0], steps[1]);
    if (when == "start") {
      EXPECT_EQ(steps[0], 0);
    }
    if (when == "evaluation") {
      EXPECT_EQ(steps[0], 4);
    }
    EXPECT_GE(steps[0], when == "start" ? 0 : 4);
    EXPECT_LT(steps[0], 100'000);
    EXPECT_THAT(messages, Contains(absl::StrCat("Stopped after step ", steps[0], ": one is enough.")));
  }
}

// Also where task 0 asks for the end at the same step, and whatever the program's stop returns.
TEST(Callback, DoesNotHideTheStopOfAnotherTask) {
  for (const int stop : {-1, 15}) {
    std::vector<int> stopped(2);
    const auto results = RunRanks(2, {.tell_failures = true}, [&](World& world) -> absl::Status {
      ASSIGN_OR_RETURN(const TowersOfWorld towers, TowersOfWorld::Gather(world, 1, In(absl::Seconds(60))));
      Experiment run("cpu:1", 16, 0.2, 3, {}, 0, {.first_tower = world.rank(), .towers = 2}, DType::kFloat32,
                     WorldCollectives(world, towers));
      Recorder recorder([&](const std::string& event, TrainingState& state) {
        if (world.rank() == 0 && event == "step") state.End("enough");
        return absl::OkStatus();
      });
      TrainerOptions options{.world = &world, .steps = 100'000, .quiet = true};
      if (world.rank() == 1) options.stop = [=] { return stop; };
      options.callbacks = {&recorder};
      Trainer trainer(*run.session, run.step, *run.input, options);
      RETURN_IF_ERROR(trainer.Run());
      stopped[world.rank()] = trainer.stopped();
      return world.Close(In(absl::Seconds(60)));
    });
    for (const absl::Status& status : results) ASSERT_EQ(status, absl::OkStatus());
    EXPECT_THAT(stopped, ElementsAre(stop, stop));
  }
}

}  // namespace
}  // namespace belfry::trainers
