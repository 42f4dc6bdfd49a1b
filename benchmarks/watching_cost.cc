// Benchmark of the cost of watching a run: steps of the CIFAR-10 tutorial network on two CPU devices, compared with the
// same with a checkpoint every 100 steps, and with every step traced. Synthetic images, batch 128, float32, gradient
// descent.
#include <cstdio>
#include <filesystem>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "benchmarks/machine.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/training_run.h"
#include "framework/runtime/checkpointer.h"

ABSL_FLAG(int, batch_size, 128, "Images per step over both towers.");
ABSL_FLAG(int, steps, 100, "Steps between two checkpoints, and the minimum number of steps in a measurement.");
ABSL_FLAG(int, rounds, 7, "Measurements of each side, taken in turn.");
ABSL_FLAG(double, seconds, 4, "Length of a measurement in seconds.");
ABSL_FLAG(std::string, directory, "", "Directory for checkpoints. Default: in the temporary directory.");

namespace belfry::benchmarks {
namespace {

void Measure(const std::string& directory) {
  const int batch = absl::GetFlag(FLAGS_batch_size), steps = absl::GetFlag(FLAGS_steps);
  const auto run = ValueOrDie(
      TrainingRun::Create({.devices = "cpu:2", .device = {.cpu_threads = 1}, .batch = batch, .momentum = false}));
  StepTrace trace;
  auto checkpointer = ValueOrDie(
      Checkpointer::Create(run->session(), ValueOrDie(io::CheckpointDirectory::Open(directory, {.keep_latest = 2}))));
  int64_t saved = 0;
  const double items = static_cast<double>(batch) * steps;
  const auto repeat = [&](auto step) {
    return [&run, steps, step] {
      for (int i = 0; i < steps; ++i) OkOrDie(step(*run));
    };
  };
  const auto plain = repeat([](TrainingRun& of) { return of.Step(); });
  std::vector<Side> sides = {
      {"plain steps", plain, items, {}},
      {"with a checkpoint every " + std::to_string(steps) + " steps",
       [&] {
         plain();
         OkOrDie(checkpointer->Save(++saved));
       },
       items,
       {},
       {}},
      {"traced steps", repeat([&trace](TrainingRun& of) { return of.TracedStep(trace); }), items, {}},
  };
  std::printf("%s\n", MachineText().c_str());
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
  absl::SetProgramUsageMessage("Measures the cost of checkpoints and traces in a training run.");
  absl::ParseCommandLine(argc, argv);
  const std::string given = absl::GetFlag(FLAGS_directory);
  const fs::path directory = given.empty() ? fs::temp_directory_path() / "belfry_watching_cost" : fs::path(given);
  belfry::benchmarks::Measure(directory.string());
  if (given.empty()) fs::remove_all(directory);
}
