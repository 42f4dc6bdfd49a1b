// What it costs to live with a run: steps of the CIFAR-10 tutorial network on two CPU devices, beside the same with a
// checkpoint every 100 steps, and with every step traced. Synthetic images, batch 128, float32, gradient descent.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "benchmarks/paired_runs.h"
#include "framework/runtime/checkpointer.h"
#include "framework/runtime/session.h"
#include "models/cifar_net.h"
#include "models/losses.h"
#include "models/replicate_towers.h"
#include "optim/descent.h"

ABSL_FLAG(int, batch_size, 128, "Images a step, over both towers.");
ABSL_FLAG(int, steps, 100, "Steps between two checkpoints, and of one timing at least.");
ABSL_FLAG(int, rounds, 7, "Times that every side is timed, in turn.");
ABSL_FLAG(double, seconds, 4, "Of each timing.");
ABSL_FLAG(std::string, directory, "", "Where checkpoints are written; by default in the temporary directory.");

namespace belfry::benchmarks {
namespace {

constexpr int64_t kPixels = 24 * 24 * 3;

template <class T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::exit(EXIT_FAILURE);
}

void OkOrDie(const absl::Status& status) {
  if (!status.ok()) ValueOrDie(absl::StatusOr<int>(status));
}

class Run {
 public:
  explicit Run(int64_t batch) : devices_(ValueOrDie(DeviceSet::Open("cpu:2", {.cpu_threads = 1}))) {
    const auto loss = [](const Scope& tower, const models::Batch& examples) -> absl::StatusOr<Output> {
      models::AddCrossEntropy(tower, models::CifarNet(tower, examples.images), examples.labels);
      return models::TotalLoss(tower);
    };
    const models::TrainStep step =
        models::ReplicateTowers(Scope(graph_), devices_, models::InputSpec{.inputs = {24, 24, 3}}, loss,
                                optim::GradientDescent({.learning_rate = 0.01}));
    session_ = ValueOrDie(Session::Create(graph_, devices_));
    OkOrDie(session_->RunTarget(step.initialize));
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<FeedSpec> specs;
    for (const models::TrainTower& tower : step.towers) {
      Tensor images(DType::kFloat32, {batch / 2, 24, 24, 3}), labels(DType::kInt32, {batch / 2});
      for (int64_t i = 0; i < batch / 2 * kPixels; ++i) images.data<float>()[i] = normal(random);
      for (int64_t i = 0; i < batch / 2; ++i) labels.data<int32_t>()[i] = static_cast<int32_t>(random() % 10);
      specs.push_back({tower.batch.images, images.shape()});
      specs.push_back({tower.batch.labels, labels.shape()});
      feeds_.push_back(std::move(images));
      feeds_.push_back(std::move(labels));
    }
    step_ = ValueOrDie(session_->Prepare(specs, {step.loss}, {step.update}));
  }

  void Step() { OkOrDie(step_->Run(feeds_)); }
  void TracedStep() { OkOrDie(step_->RunTraced(feeds_, trace_)); }
  Session& session() { return *session_; }

 private:
  DeviceSet devices_;
  Graph graph_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<PreparedStep> step_;
  std::vector<Tensor> feeds_;
  StepTrace trace_;
};

void Measure(const std::string& directory) {
  const int batch = absl::GetFlag(FLAGS_batch_size), steps = absl::GetFlag(FLAGS_steps);
  Run run(batch);
  auto checkpointer = ValueOrDie(
      Checkpointer::Create(run.session(), ValueOrDie(io::CheckpointDirectory::Open(directory, {.keep_latest = 2}))));
  int64_t saved = 0;
  const double items = static_cast<double>(batch) * steps;
  const auto repeat = [&](auto step) {
    return [&run, steps, step] {
      for (int i = 0; i < steps; ++i) step(run);
    };
  };
  const auto plain = repeat([](Run& of) { of.Step(); });
  std::vector<Side> sides = {
      {"plain steps", plain, items, {}},
      {"with a checkpoint every " + std::to_string(steps) + " steps",
       [&] {
         plain();
         OkOrDie(checkpointer->Save(++saved));
       },
       items,
       {}},
      {"traced steps", repeat([](Run& of) { of.TracedStep(); }), items, {}},
  };
  PrintMachine();
  RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds));
  OkOrDie(checkpointer->Finish());
  PrintRates(sides, "images/s");
  std::printf("throughput with checkpoints / without: %.4f\n", MedianRatio(sides[1], sides[0]));
  std::printf("throughput traced / plain: %.4f\n", MedianRatio(sides[2], sides[0]));
  std::printf("%lld checkpoints written\n", static_cast<long long>(saved));
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  absl::SetProgramUsageMessage("What checkpoints and traces cost a training run.");
  absl::ParseCommandLine(argc, argv);
  const std::string given = absl::GetFlag(FLAGS_directory);
  const fs::path directory = given.empty() ? fs::temp_directory_path() / "belfry_watching_cost" : fs::path(given);
  belfry::benchmarks::Measure(directory.string());
  if (given.empty()) fs::remove_all(directory);
}
