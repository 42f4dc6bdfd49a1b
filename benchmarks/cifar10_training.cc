// Benchmark of training steps of the CIFAR-10 tutorial network: compared with the same step as a chain of bare oneDNN
// primitives, and two towers compared with one. Synthetic images, batch 128, float32, gradient descent.
#include <omp.h>

#include <cstdio>
#include <vector>

#include "absl/flags/flag.h"
#include "benchmarks/cifar10_chain.h"
#include "benchmarks/machine.h"
#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/training_run.h"
#include "framework/base/status.h"

ABSL_FLAG(int, batch_size, 128, "Images per step over all towers.");
ABSL_FLAG(int, rounds, 7, "Measurements of each side, taken in turn.");
ABSL_FLAG(double, seconds, 2, "Length of a measurement in seconds.");
ABSL_FLAG(std::string, dump_plan, "", "Directory for the plan of one tower; empty: none.");

namespace belfry::benchmarks {
namespace {

absl::Status Run() {
  const int batch = absl::GetFlag(FLAGS_batch_size);
  ASSIGN_OR_RETURN(const BenchModel model, FindModel("cifar_net"));
  const std::vector<Tensor> data = BenchData(model, batch);
  omp_set_num_threads(1);
  Cifar10Chain chain(batch, 1);
  const auto belfry = [&](const char* devices, const std::string& dump) {
    return TrainingRun::Create({.devices = devices,
                                .device = {.cpu_threads = 1},
                                .batch = batch,
                                .momentum = false,
                                .session = {.dump_plan = dump}});
  };
  ASSIGN_OR_RETURN(const auto one, belfry("cpu:1", absl::GetFlag(FLAGS_dump_plan)));
  ASSIGN_OR_RETURN(const auto two, belfry("cpu:2", ""));
  const auto step = [&] {
    chain.Step(data[0].data<float>(), data[1].data<int32_t>(), kLearningRate);
    return absl::OkStatus();
  };
  std::vector<Side> sides = {
      {.name = "chain of bare oneDNN primitives, 1 thread", .step = step, .items_per_step = static_cast<double>(batch)},
      SideOf("Belfry, cpu:1, 1 thread", *one),
      SideOf("Belfry, cpu:2, 1 thread each", *two)};
  std::printf("%s\n", MachineText().c_str());
  RETURN_IF_ERROR(RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds)));
  PrintRates(sides, "images/s");
  std::printf("time of Belfry's step / time of the chain's: %.3f\n", MedianRatio(sides[0], sides[1]));
  std::printf("two towers / one tower: %.3f\n", MedianRatio(sides[2], sides[1]));
  std::printf("losses of the last steps: one tower %.4f, two towers %.4f\n", one->loss(), two->loss());
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(
      argc, argv,
      "Compares the training speed of the CIFAR-10 tutorial network with a chain of bare oneDNN primitives.",
      belfry::benchmarks::Run);
}
