#include "benchmarks/tutorial_run.h"

#include <cstdio>
#include <cstdlib>
#include <random>

#include "models/cifar_net.h"
#include "models/losses.h"
#include "models/replicate_towers.h"
#include "optim/descent.h"

namespace belfry::benchmarks {

void OkOrDie(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(EXIT_FAILURE);
}

TutorialData::TutorialData(int64_t batch)
    : images(DType::kFloat32, {batch, 24, 24, 3}), labels(DType::kInt32, {batch}) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < images.elements(); ++i) images.data<float>()[i] = normal(random);
  for (int64_t i = 0; i < batch; ++i) labels.data<int32_t>()[i] = static_cast<int32_t>(random() % 10);
}

TutorialRun::TutorialRun(int towers, const TutorialData& data, const std::string& dump)
    : devices_(ValueOrDie(DeviceSet::Open("cpu:" + std::to_string(towers), {.cpu_threads = 1}))) {
  const auto loss = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    models::AddCrossEntropy(tower, models::CifarNet(tower, batch.images), batch.labels);
    return models::TotalLoss(tower);
  };
  const models::TrainStep step =
      models::ReplicateTowers(Scope(graph_), devices_, models::InputSpec{.inputs = {24, 24, 3}}, loss,
                              optim::GradientDescent({.learning_rate = kTutorialRate}));
  session_ = ValueOrDie(Session::Create(graph_, devices_, {.dump_plan = dump}));
  OkOrDie(session_->RunTarget(step.initialize));
  const int64_t share = data.images.shape()[0] / towers, pixels = 24 * 24 * 3;
  std::vector<FeedSpec> specs;
  for (int i = 0; i < towers; ++i) {
    feeds_.push_back(Tensor::Of<float>({data.images.data<float>() + i * share * pixels, size_t(share * pixels)},
                                       {share, 24, 24, 3}));
    feeds_.push_back(Tensor::Of<int32_t>({data.labels.data<int32_t>() + i * share, size_t(share)}, {share}));
    specs.push_back({step.towers[i].batch.images, feeds_[2 * i].shape()});
    specs.push_back({step.towers[i].batch.labels, feeds_[2 * i + 1].shape()});
  }
  step_ = ValueOrDie(session_->Prepare(specs, {step.loss}, {step.update}));
}

void TutorialRun::Step() { OkOrDie(step_->Run(feeds_)); }

void TutorialRun::TracedStep() { OkOrDie(step_->RunTraced(feeds_, trace_)); }

}  // namespace belfry::benchmarks
