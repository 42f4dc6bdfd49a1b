// Trains a saved model further, such as one that import_onnx made of PyTorch's: fine_tune MODEL OUTPUT
//
// The model takes images and gives logits. Here each class is a picture of its own with noise; use your own data.
#include <cmath>
#include <cstdio>
#include <random>

#include "belfry.h"

using namespace belfry;

constexpr int64_t kExamples = 200, kSteps = 25;

std::unique_ptr<data::Dataset> Pictures(const std::string& name, Shape shape, int64_t classes) {
  shape.set_dim(0, kExamples);
  Tensor images(DType::kFloat32, shape), labels(DType::kInt32, {kExamples});
  std::mt19937 random;
  std::normal_distribution<float> noise(0, 0.3f);
  const int64_t size = images.elements() / kExamples;
  for (int64_t i = 0; i < images.elements(); ++i) {
    const int64_t pixel = i % size, label = i / size % classes;
    images.data<float>()[i] = std::sin(0.01f * static_cast<float>((label + 1) * pixel)) + noise(random);
    labels.data<int32_t>()[i / size] = static_cast<int32_t>(label);
  }
  return data::FromTensors({{name, images}, {"label", labels}}).value();
}

absl::Status FineTune(const std::string& path, const std::string& output) {
  ASSIGN_OR_RETURN(const ModelContents contents, ModelContents::Open(path));
  Graph as_saved(BuiltinOps());
  ASSIGN_OR_RETURN(const ModelEnds ends, contents.Build(Scope(as_saved), ModelMode::kFixed));
  const NamedOutput &image = ends.inputs[0], &logits = ends.outputs[0];
  const Shape &of_image = image.value.shape(), &of_logits = logits.value.shape();
  if (ends.inputs.size() != 1 || of_image.rank() < 2 || !of_image.Remove(0).known() || of_logits.rank() != 2 ||
      !of_logits.Remove(0).known()) {
    return absl::InvalidArgumentError("the model must take one input of known size, and give logits [N, classes]");
  }
  const auto pictures = Pictures(image.name, image.value.shape(), logits.value.shape()[-1]);
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:2"));
  ASSIGN_OR_RETURN(auto input, data::Prefetcher::Create(*pictures, {.batch_size = 40, .towers = 2}));
  std::vector<Output> results;  // of each tower
  const auto model = [&](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    ASSIGN_OR_RETURN(const auto outputs, models::BuildSavedModel(tower, contents, {{image.name, batch[image.name]}}));
    results.push_back(outputs[0]);
    models::AddCrossEntropy(tower, outputs[0], batch["label"]);
    return models::TotalLoss(tower);
  };
  Graph graph(BuiltinOps());
  auto step = models::ReplicateTowers(Scope(graph), devices, *input, model, optim::AdamW({.learning_rate = 0.001}));
  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  trainers::Trainer first(*session, step, *input, {.steps = 1}), rest(*session, step, *input, {.steps = kSteps});
  RETURN_IF_ERROR(first.Run());
  RETURN_IF_ERROR(rest.Run());
  std::printf("Loss: %.3f at first, now %.3f.\n", first.loss(), rest.loss());
  return SaveModel(*session, {{image.name, step.towers[0].batch[image.name]}}, {{logits.name, results[0]}}, output);
}

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: fine_tune MODEL OUTPUT\n"), 2;
  const absl::Status status = FineTune(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
