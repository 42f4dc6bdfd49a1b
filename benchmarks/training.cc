// Training steps a second of a network on any devices, on synthetic images that stay the same.
// benchmarks/peers/pytorch_training.py runs it in turn with the same network in PyTorch.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "benchmarks/paired_runs.h"
#include "framework/base/status.h"
#include "framework/runtime/session.h"
#include "framework/runtime/trace_report.h"
#include "models/cifar_net.h"
#include "models/losses.h"
#include "models/replicate_towers.h"
#include "models/resnet.h"
#include "ops/array.h"
#include "optim/descent.h"

ABSL_FLAG(std::string, devices, "cpu:1", "Devices, one tower on each: cpu:N or gpu:N.");
ABSL_FLAG(std::string, model, "cifar_net", "cifar_net (24x24 images), or resnet20 to resnet110 (32x32 images).");
ABSL_FLAG(int64_t, batch_size, 128, "Images of a step, over all towers; a multiple of their number.");
ABSL_FLAG(std::string, dtype, "float32", "What the network computes in: float32, or bfloat16 with float32 weights.");
ABSL_FLAG(int, rounds, 5, "Timings.");
ABSL_FLAG(double, seconds, 2, "Of each timing.");
ABSL_FLAG(
    int, trace_steps, 0,
    "Steps that are traced at the end, by the devices' own clocks (on GPUs CUDA's events); prints where their time "
    "goes.");
ABSL_FLAG(bool, replay, true, "Record a steady step of GPUs, and replay it.");

namespace belfry::benchmarks {
namespace {

constexpr int kClasses = 10, kWarmUpSteps = 10, kHostSteps = 200;

absl::Status Run() {
  const std::string model = absl::GetFlag(FLAGS_model);
  int depth = 0;
  if (model != "cifar_net" &&
      (!absl::StartsWith(model, "resnet") || !absl::SimpleAtoi(model.substr(6), &depth) || depth % 6 != 2)) {
    return absl::InvalidArgumentError(absl::StrCat("--model=", model, " is not known"));
  }
  if (absl::GetFlag(FLAGS_rounds) < 1 || absl::GetFlag(FLAGS_trace_steps) < 0) {
    return absl::InvalidArgumentError("--rounds must be at least 1, and --trace_steps at least 0");
  }
  const int64_t side = depth == 0 ? 24 : 32;
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open(absl::GetFlag(FLAGS_devices)));
  const std::string dtype = absl::GetFlag(FLAGS_dtype);
  if (dtype != "float32" && dtype != "bfloat16") {
    return absl::InvalidArgumentError(absl::StrCat("--dtype=", dtype, " is not known"));
  }
  const auto loss = [&](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    const Output images = dtype == "float32" ? batch.images : ops::Cast(tower, batch.images, DType::kBFloat16);
    const Output logits =
        depth == 0 ? models::CifarNet(tower, images) : models::ResNet(tower, images, {.depth = depth});
    models::AddCrossEntropy(tower, logits, batch.labels);
    return models::TotalLoss(tower);
  };
  Graph graph;
  const models::TrainStep step =
      models::ReplicateTowers(Scope(graph), devices, models::InputSpec{.inputs = {side, side, 3}}, loss,
                              optim::Momentum({.learning_rate = 0.01, .momentum = 0.9}));
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, {.replay = absl::GetFlag(FLAGS_replay)}));
  RETURN_IF_ERROR(session->RunTarget(step.initialize));

  const int64_t batch = absl::GetFlag(FLAGS_batch_size), towers = static_cast<int64_t>(step.towers.size());
  if (batch < 1 || batch % towers != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--batch_size=", batch, " is not a multiple of ", towers));
  }
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<FeedSpec> specs;
  std::vector<Tensor> feeds;
  for (const models::TrainTower& tower : step.towers) {
    Tensor images(DType::kFloat32, {batch / towers, side, side, 3}), labels(DType::kInt32, {batch / towers});
    for (int64_t i = 0; i < images.elements(); ++i) images.data<float>()[i] = normal(random);
    for (int64_t i = 0; i < labels.elements(); ++i)
      labels.data<int32_t>()[i] = static_cast<int32_t>(random() % kClasses);
    specs.push_back({tower.batch.images, images.shape()});
    specs.push_back({tower.batch.labels, labels.shape()});
    feeds.push_back(std::move(images));
    feeds.push_back(std::move(labels));
  }
  ASSIGN_OR_RETURN(const auto prepared, session->Prepare(specs, {step.loss}, {step.update}));
  for (int i = 0; i < kWarmUpSteps; ++i) RETURN_IF_ERROR(prepared->Run(feeds));
  RETURN_IF_ERROR(prepared->Wait());

  std::vector<double> rates;
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    const absl::Time begin = absl::Now();
    int64_t steps = 0;
    while (steps == 0 || absl::ToDoubleSeconds(absl::Now() - begin) < absl::GetFlag(FLAGS_seconds)) {
      RETURN_IF_ERROR(prepared->Run(feeds));
      ++steps;
    }
    RETURN_IF_ERROR(prepared->Wait());
    rates.push_back(static_cast<double>(steps) / absl::ToDoubleSeconds(absl::Now() - begin));
  }
  // With nothing under way, so that Run does not wait for an earlier step.
  std::vector<double> host;
  for (int i = 0; prepared->asynchronous() && i < kHostSteps; ++i) {
    RETURN_IF_ERROR(prepared->Wait());
    const absl::Time begin = absl::Now();
    RETURN_IF_ERROR(prepared->Run(feeds));
    host.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
  }
  RETURN_IF_ERROR(prepared->Wait());
  PrintMachine();
  for (int i : devices.TowerDevices()) std::printf("tower on %s\n", devices.device(i).description().c_str());
  std::printf("%s, batch %d, %s, %s: %.1f images/s, %.1f us a step (median of %zu), loss %.4f\n", model.c_str(),
              static_cast<int>(batch), dtype.c_str(), prepared->replays() ? "replayed" : "not replayed",
              Median(rates) * static_cast<double>(batch), 1e6 / Median(rates), rates.size(),
              prepared->fetched(0).scalar<float>());
  if (!host.empty()) std::printf("host time of a step: %.1f us (median of %zu)\n", Median(host), host.size());
  std::vector<StepTrace> traces(absl::GetFlag(FLAGS_trace_steps));
  for (StepTrace& trace : traces) RETURN_IF_ERROR(prepared->RunTraced(feeds, trace));
  if (!traces.empty()) std::printf("\n%s", TraceTable(prepared->plan(), devices, traces).c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Images a second in training, on any devices.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = belfry::benchmarks::Run();
  if (!status.ok()) std::fprintf(stderr, "Error: %s\n", status.ToString().c_str());
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}
