// Trains a small convolutional network with one tower per device, and tests it. The README shows this file.
#include <cstdio>

#include "trainers/belfry.h"

using namespace belfry;

// The loss of one tower on its share of the batch. Called once per device, with the same variables each time.
absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  Output logits = models::CifarNet(tower, batch.images);  // [N, 24, 24, 3] to [N, 10]
  models::AddCrossEntropy(tower, logits, batch.labels);
  return models::TotalLoss(tower);  // cross-entropy and weight decay of this tower
}

absl::Status Train() {
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:2"));
  RETURN_IF_ERROR(data::WriteTextures("/tmp/belfry_textures"));  // generated images in CIFAR-10's layout
  ASSIGN_OR_RETURN(data::Cifar10 cifar10, data::OpenCifar10("/tmp/belfry_textures"));
  ASSIGN_OR_RETURN(
      auto input,
      data::Prefetcher::Create(*cifar10.train, {.batch_size = 128, .towers = 2, .images = data::TutorialTraining()}));

  Graph graph(BuiltinOps());
  optim::GradientDescent optimizer({.learning_rate = optim::Cosine(0.1, /*decay_steps=*/200)});
  models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, Loss, optimizer);
  trainers::Evaluator evaluator(Scope(graph).NameScope("evaluation").ReuseVariables(Reuse::kAlways),
                                models::InputSpec::Of(*input),
                                [](const Scope& scope, Output images) { return models::CifarNet(scope, images); });

  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  RETURN_IF_ERROR(trainers::Trainer(*session, step, *input, {.steps = 200}).Run());
  ASSIGN_OR_RETURN(trainers::Classification result,
                   evaluator.Run(*session, *cifar10.test, data::TutorialEvaluation(), /*batch_size=*/500));
  std::printf("Test accuracy %.1f%%\n", 100 * result.accuracy);
  return absl::OkStatus();
}

int main() {
  absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
