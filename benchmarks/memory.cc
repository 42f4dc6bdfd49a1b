// Benchmark of memory planning for a training step: the size of the arena, compared with the least that any plan of the
// same order needs (the most bytes in use at one moment) and with the sum of all tensors, as if none shared memory.
// Then the memory that recomputation saves, and the time it takes.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/report.h"
#include "benchmarks/step_times.h"
#include "benchmarks/training_run.h"
#include "framework/base/status.h"
#include "framework/base/units.h"

ABSL_FLAG(std::string, models, "cifar_net,cifar_net_no_lrn,resnet20,resnet56,mlp,s5",
          "Models to measure; see --model of `training`.");
ABSL_FLAG(std::string, devices, "cpu:1", "Devices, with one tower on each; the table has a row per device.");
ABSL_FLAG(int64_t, batch_size, 0, "Examples per step over all towers; 0: the model's default.");
ABSL_FLAG(std::string, dtype, "float32", "Type in which the network computes: float32 or bfloat16.");
ABSL_FLAG(std::string, recompute_models, "cifar_net,resnet20", "Models to measure with recomputation; empty: none.");
ABSL_FLAG(std::string, recompute, "cheap,sqrt,half",
          "Ways to measure beside none: those of --recompute, and half, which has half of the memory as its limit.");
ABSL_FLAG(int, threads, 1, "Threads per device while recomputation is measured.");
ABSL_FLAG(int, rounds, 7, "Measurements of each kind of recomputation, taken in turn.");
ABSL_FLAG(double, seconds, 0.5, "Length of a measurement in seconds.");
ABSL_FLAG(std::string, out, "", "Directory for results as JSON and CSV; empty: none.");

namespace belfry::benchmarks {
namespace {

std::vector<std::string> Names(absl::string_view flag) { return absl::StrSplit(flag, ',', absl::SkipEmpty()); }

constexpr char kHalf[] = "half";

// The arena that leaves a step, with its variables, half of the memory that `run` takes on the device of its tower.
size_t HalfOfTheArena(const TrainingRun& run) {
  const size_t variables = run.variable_bytes();
  return std::max((variables + run.arena_bytes()) / 2, variables + 1) - variables;
}

// Trains a model in each way, in turn.
absl::Status TimeRecomputation(const std::string& model, Report& report) {
  std::vector<std::unique_ptr<TrainingRun>> runs;
  std::vector<Side> sides;
  for (const std::string& name : Names(absl::StrCat("none,", absl::GetFlag(FLAGS_recompute)))) {
    SessionOptions session;
    if (name == kHalf) {
      session.arena_limit = HalfOfTheArena(*runs[0]);
    } else {
      ASSIGN_OR_RETURN(session.recompute, ParseRecompute(name));
    }
    ASSIGN_OR_RETURN(runs.emplace_back(), TrainingRun::Create({.model = model,
                                                               .devices = absl::GetFlag(FLAGS_devices),
                                                               .device = {.cpu_threads = absl::GetFlag(FLAGS_threads)},
                                                               .batch = absl::GetFlag(FLAGS_batch_size),
                                                               .dtype = absl::GetFlag(FLAGS_dtype),
                                                               .session = session}));
    sides.push_back(SideOf(name, *runs.back()));
    sides.back().items_per_step = static_cast<double>(runs.back()->batch());
  }
  RETURN_IF_ERROR(RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds)));
  for (size_t i = 0; i < sides.size(); ++i) {
    const auto memory = static_cast<double>(runs[i]->arena_bytes());
    const double share = memory / static_cast<double>(runs[0]->arena_bytes()), time = MedianRatio(sides[0], sides[i]);
    nlohmann::ordered_json row = {{"model", model},
                                  {"batch", runs[i]->batch()},
                                  {"recompute", sides[i].name},
                                  {"arena", memory / kMebi},
                                  {"of_none", share}};
    AddSpread(row, "images/s", sides[i].rates);
    row["time_of_none"] = time;
    report.Add(std::move(row));
    if (i == 0) continue;
    const std::string way =
        sides[i].name == kHalf ? "half of the memory as its limit" : absl::StrCat("--recompute=", sides[i].name);
    report.Summarize(absl::StrCat(model, " with ", way, ": ", ShortNumber(share), " of the memory, ", ShortNumber(time),
                                  " of the time"));
  }
  return absl::OkStatus();
}

absl::Status Run() {
  if (absl::GetFlag(FLAGS_rounds) < 1 || absl::GetFlag(FLAGS_seconds) <= 0) {
    return absl::InvalidArgumentError("--rounds must be at least 1, and --seconds above 0");
  }
  Report report("memory", absl::StrCat("Memory of a training step on ", absl::GetFlag(FLAGS_devices), ", ",
                                       absl::GetFlag(FLAGS_dtype), ": MiB"));
  double worst = 0;
  std::string worst_model;
  for (const std::string& name : Names(absl::GetFlag(FLAGS_models))) {
    ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRun> run,
                     TrainingRun::Create({.model = name,
                                          .devices = absl::GetFlag(FLAGS_devices),
                                          .batch = absl::GetFlag(FLAGS_batch_size),
                                          .dtype = absl::GetFlag(FLAGS_dtype)}));
    const MemoryPlan& memory = run->prepared().plan().memory;
    for (int device : run->devices().TowerDevices()) {
      const auto arena = static_cast<double>(memory.arena_bytes[device]);
      const auto least = static_cast<double>(LeastArena(memory, device));
      const auto sum = static_cast<double>(memory.sum_bytes[device]);
      report.Add({{"model", name},
                  {"device", run->devices().device(device).name().ToLocalString()},
                  {"batch", run->batch()},
                  {"arena", arena / kMebi},
                  {"least", least / kMebi},
                  {"arena/least", least > 0 ? arena / least : 1},
                  {"sum", sum / kMebi},
                  {"arena/sum", sum > 0 ? arena / sum : 1}});
      if (least > 0 && arena / least > worst) {
        worst = arena / least;
        worst_model = name;
      }
    }
  }
  report.Summarize(
      absl::StrCat("planned memory: at most ", ShortNumber(worst), " times the least possible (", worst_model, ")"));
  RETURN_IF_ERROR(report.Finish(absl::GetFlag(FLAGS_out)));
  if (absl::GetFlag(FLAGS_recompute_models).empty()) return absl::OkStatus();
  Report timed("recompute", absl::StrCat("Memory for time on ", absl::GetFlag(FLAGS_devices), ", ",
                                         absl::GetFlag(FLAGS_threads), " thread(s) a device: MiB of the first tower"));
  for (const std::string& name : Names(absl::GetFlag(FLAGS_recompute_models))) {
    RETURN_IF_ERROR(TimeRecomputation(name, timed));
  }
  return timed.Finish(absl::GetFlag(FLAGS_out));
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(
      argc, argv, "Reports the planned memory of training steps, and what recomputation saves and costs.",
      belfry::benchmarks::Run);
}
