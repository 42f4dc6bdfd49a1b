// Training steps of the CIFAR-10 tutorial network, beside the same step as a chain of bare oneDNN primitives, and with
// two towers beside one. Synthetic images, batch 128, float32, gradient descent.
#include <omp.h>

#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "benchmarks/cifar10_chain.h"
#include "benchmarks/paired_runs.h"
#include "framework/base/check.h"
#include "framework/runtime/session.h"
#include "models/cifar_net.h"
#include "models/losses.h"
#include "models/replicate_towers.h"
#include "optim/descent.h"

ABSL_FLAG(int, batch_size, 128, "Images a step, over all towers.");
ABSL_FLAG(int, rounds, 7, "Times that every side is timed, in turn.");
ABSL_FLAG(double, seconds, 2, "Of each timing.");
ABSL_FLAG(std::string, dump_plan, "", "A directory for the plan of one tower.");

namespace belfry::benchmarks {
namespace {

constexpr double kLearningRate = 0.01;

struct Data {
  Tensor images, labels;
};

Data RandomData(int64_t batch) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Data data{Tensor(DType::kFloat32, {batch, 24, 24, 3}), Tensor(DType::kInt32, {batch})};
  for (int64_t i = 0; i < data.images.elements(); ++i) data.images.data<float>()[i] = normal(random);
  for (int64_t i = 0; i < batch; ++i) data.labels.data<int32_t>()[i] = static_cast<int32_t>(random() % 10);
  return data;
}

// A trainer of `towers` towers with one thread each.
class Belfry {
 public:
  Belfry(int towers, const Data& data, const std::string& dump)
      : devices_(DeviceSet::Open("cpu:" + std::to_string(towers), {.cpu_threads = 1}).value()) {
    const optim::GradientDescent optimizer({.learning_rate = kLearningRate});
    const auto loss = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
      models::AddCrossEntropy(tower, models::CifarNet(tower, batch.images), batch.labels);
      return models::TotalLoss(tower);
    };
    const models::TrainStep step =
        models::ReplicateTowers(Scope(graph_), devices_, models::InputSpec{.inputs = {24, 24, 3}}, loss, optimizer);
    auto session = Session::Create(graph_, devices_, {.dump_plan = dump});
    if (!session.ok()) Die(session.status());
    session_ = *std::move(session);
    if (absl::Status status = session_->RunTarget(step.initialize); !status.ok()) Die(status);
    const int64_t share = data.images.shape()[0] / towers, pixels = 24 * 24 * 3;
    std::vector<FeedSpec> specs;
    for (int i = 0; i < towers; ++i) {
      feeds_.push_back(Tensor::Of<float>({data.images.data<float>() + i * share * pixels, size_t(share * pixels)},
                                         {share, 24, 24, 3}));
      feeds_.push_back(Tensor::Of<int32_t>({data.labels.data<int32_t>() + i * share, size_t(share)}, {share}));
      specs.push_back({step.towers[i].batch.images, feeds_[2 * i].shape()});
      specs.push_back({step.towers[i].batch.labels, feeds_[2 * i + 1].shape()});
    }
    auto prepared = session_->Prepare(specs, {step.loss}, {step.update});
    if (!prepared.ok()) Die(prepared.status());
    step_ = *std::move(prepared);
  }

  void Step() {
    if (absl::Status status = step_->Run(feeds_); !status.ok()) Die(status);
  }
  float loss() const { return step_->fetched(0).scalar<float>(); }
  const Plan& plan() const { return step_->plan(); }

 private:
  [[noreturn]] static void Die(const absl::Status& status) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(EXIT_FAILURE);
  }

  DeviceSet devices_;
  Graph graph_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<PreparedStep> step_;
  std::vector<Tensor> feeds_;
};

void Run() {
  const int batch = absl::GetFlag(FLAGS_batch_size);
  const Data data = RandomData(batch);
  omp_set_num_threads(1);
  Cifar10Chain chain(batch, 1);
  Belfry one(1, data, absl::GetFlag(FLAGS_dump_plan)), two(2, data, "");
  const auto items = static_cast<double>(batch);
  std::vector<Side> sides = {
      {"chain of bare oneDNN primitives, 1 thread",
       [&] { chain.Step(data.images.data<float>(), data.labels.data<int32_t>(), kLearningRate); },
       items,
       {}},
      {"Belfry, cpu:1, 1 thread", [&] { one.Step(); }, items, {}},
      {"Belfry, cpu:2, 1 thread each", [&] { two.Step(); }, items, {}},
  };
  PrintMachine();
  RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds));
  PrintRates(sides, "images/s");
  std::printf("time of Belfry's step / time of the chain's: %.3f\n", MedianRatio(sides[0], sides[1]));
  std::printf("two towers / one tower: %.3f\n", MedianRatio(sides[2], sides[1]));
  std::printf("losses of the last steps: one tower %.4f, two towers %.4f\n", one.loss(), two.loss());
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Training speed of the CIFAR-10 tutorial network against a chain of bare primitives.");
  absl::ParseCommandLine(argc, argv);
  belfry::benchmarks::Run();
}
