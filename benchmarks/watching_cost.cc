// Benchmark of the cost of watching a run: steps of the CIFAR-10 tutorial network on two CPU devices, compared with the
// same with a checkpoint every 100 steps, and with every step traced. Synthetic images, batch 128, float32, gradient
// descent.
#include <cstdio>
#include <filesystem>
#include <vector>

#include "absl/flags/flag.h"
#include "benchmarks/machine.h"
#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/training_run.h"
#include "framework/base/status.h"
#include "framework/runtime/checkpointer.h"

ABSL_FLAG(int, batch_size, 128, "Images per step over both towers.");
ABSL_FLAG(int, steps, 100, "Steps between two checkpoints, and the minimum number of steps in a measurement.");
ABSL_FLAG(int, rounds, 7, "Measurements of each side, taken in turn.");
ABSL_FLAG(double, seconds, 4, "Length of a measurement in seconds.");
ABSL_FLAG(std::string, directory, "", "Directory for checkpoints. Default: in the temporary directory.");

namespace belfry::benchmarks {
namespace {

absl::Status Measure(const std::string& directory) {
  const int batch = absl::GetFlag(FLAGS_batch_size), steps = absl::GetFlag(FLAGS_steps);
  ASSIGN_OR_RETURN(
      const auto run,
      TrainingRun::Create({.devices = "cpu:2", .device = {.cpu_threads = 1}, .batch = batch, .momentum = false}));
  StepTrace trace;
  ASSIGN_OR_RETURN(auto kept, io::CheckpointDirectory::Open(directory, {.keep_latest = 2}));
  ASSIGN_OR_RETURN(const auto checkpointer, Checkpointer::Create(run->session(), std::move(kept)));
  int64_t saved = 0;
  std::vector<Side> sides;
  const auto add = [&](std::string name, auto step, auto after) {
    const auto repeat = [steps, step, after] {
      for (int i = 0; i < steps; ++i) RETURN_IF_ERROR(step());
      return after();
    };
    sides.push_back({.name = std::move(name), .step = repeat, .items_per_step = static_cast<double>(batch) * steps});
  };
  const auto plain = [&] { return run->Step(); };
  const auto traced = [&] { return run->TracedStep(trace); };
  add("plain steps", plain, absl::OkStatus);
  add("with a checkpoint every " + std::to_string(steps) + " steps", plain,
      [&] { return checkpointer->Save(++saved); });
  add("traced steps", traced, absl::OkStatus);
  std::printf("%s\n", MachineText().c_str());
  RETURN_IF_ERROR(RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds)));
  RETURN_IF_ERROR(checkpointer->Finish());
  PrintRates(sides, "images/s");
  std::printf("throughput with checkpoints / without: %.4f\n", MedianRatio(sides[1], sides[0]));
  std::printf("throughput traced / plain: %.4f\n", MedianRatio(sides[2], sides[0]));
  std::printf("%lld checkpoints written\n", static_cast<long long>(saved));
  return absl::OkStatus();
}

absl::Status Run() {
  namespace fs = std::filesystem;
  const std::string given = absl::GetFlag(FLAGS_directory);
  if (!given.empty()) return Measure(given);
  const fs::path directory = fs::temp_directory_path() / "belfry_watching_cost";
  const absl::Status status = Measure(directory.string());
  fs::remove_all(directory);
  return status;
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(argc, argv, "Measures the cost of checkpoints and traces in a training run.",
                                          belfry::benchmarks::Run);
}
