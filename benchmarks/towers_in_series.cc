// Benchmark of towers in series on one device, beside one tower with the examples of one of them: the memory of a step,
// the time to compile it, and the speed, timed in turn.
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/report.h"
#include "benchmarks/training_run.h"
#include "framework/base/status.h"
#include "framework/base/units.h"

ABSL_FLAG(std::string, models, "cifar_net,resnet20,gpt", "Models to measure; see --model of `training`.");
ABSL_FLAG(std::string, devices, "cpu:1", "A device.");
ABSL_FLAG(std::string, towers, "1,8,64", "Numbers of towers; the first is what the others are compared with.");
ABSL_FLAG(int64_t, batch_size, 0, "Examples of a tower; 0: the model's default.");
ABSL_FLAG(std::string, dtype, "float32", "Type in which the network computes: float32, bfloat16 or float16.");
ABSL_FLAG(int, threads, 1, "Threads of a CPU device.");
ABSL_FLAG(int, rounds, 7, "Measurements of the speed.");
ABSL_FLAG(int, compilations, 5, "Compilations, of which the median counts.");
ABSL_FLAG(double, seconds, 1, "Length of a measurement in seconds.");
ABSL_FLAG(std::string, out, "", "Directory for results as JSON and CSV; empty: none.");

namespace belfry::benchmarks {
namespace {

struct Runs {
  int towers = 1;
  std::vector<double> compile_ms;
  std::unique_ptr<TrainingRun> run;
};

absl::StatusOr<std::unique_ptr<TrainingRun>> MakeRun(const std::string& model, int towers) {
  ASSIGN_OR_RETURN(const BenchModel found, FindModel(model));
  const int64_t each = absl::GetFlag(FLAGS_batch_size) != 0 ? absl::GetFlag(FLAGS_batch_size) : found.batch;
  return TrainingRun::Create({.model = model,
                              .devices = absl::GetFlag(FLAGS_devices),
                              .device = {.cpu_threads = absl::GetFlag(FLAGS_threads)},
                              .batch = each * towers,
                              .dtype = absl::GetFlag(FLAGS_dtype),
                              .replicate = {.micro_batches = towers}});
}

// The variables, sums included, and the memory of all prepared steps.
double MemoryOf(const TrainingRun& run) {
  return static_cast<double>(run.variable_bytes() + run.arena_bytes()) / kMebi;
}

absl::Status Measure(const std::string& model, absl::Span<const int> towers, Report& report) {
  std::vector<Runs> all;
  for (const int count : towers) all.push_back({.towers = count});
  for (int i = 0; i < absl::GetFlag(FLAGS_compilations); ++i) {
    for (Runs& one : all) {
      ASSIGN_OR_RETURN(one.run, MakeRun(model, one.towers));
      one.compile_ms.push_back(one.run->compile_seconds() * 1e3);
    }
  }
  std::vector<Side> sides;
  for (const Runs& one : all) sides.push_back(SideOf(absl::StrCat(one.towers), *one.run));
  RETURN_IF_ERROR(RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds)));
  for (size_t i = 0; i < all.size(); ++i) {
    TrainingRun& run = *all[i].run;
    nlohmann::ordered_json row = {{"model", model}, {"towers", all[i].towers}, {"examples", run.batch()}};
    row["MiB"] = MemoryOf(run);
    row["of_first"] = MemoryOf(run) / MemoryOf(*all[0].run);
    AddSpread(row, "compile_ms", all[i].compile_ms);
    AddSpread(row, absl::StrCat(run.model().unit, "/s"), sides[i].rates);
    AddSpread(row, "speed", Ratios(sides[i], sides[0]));
    report.Add(std::move(row));
    if (i == 0) continue;
    report.Summarize(absl::StrCat(model, ", ", all[i].towers, " towers beside ", all[0].towers, ": ",
                                  ShortNumber(MemoryOf(run) / MemoryOf(*all[0].run)), " of the memory, ",
                                  ShortNumber(Median(all[i].compile_ms) / Median(all[0].compile_ms)),
                                  " of the time to compile, ", ShortNumber(MedianRatio(sides[i], sides[0])),
                                  " of the speed"));
  }
  return absl::OkStatus();
}

absl::Status Run() {
  std::vector<int> towers;
  for (const absl::string_view text : absl::StrSplit(absl::GetFlag(FLAGS_towers), ',')) {
    if (!absl::SimpleAtoi(text, &towers.emplace_back()) || towers.back() < 1) {
      return absl::InvalidArgumentError(absl::StrCat("--towers=", text, ": expected numbers of at least 1"));
    }
  }
  if (absl::GetFlag(FLAGS_rounds) < 1 || absl::GetFlag(FLAGS_compilations) < 1 || !(absl::GetFlag(FLAGS_seconds) > 0)) {
    return absl::InvalidArgumentError("--rounds and --compilations must be at least 1, and --seconds above 0");
  }
  Report report("towers_in_series",
                absl::StrCat("Towers in series on ", absl::GetFlag(FLAGS_devices), ", ", absl::GetFlag(FLAGS_dtype),
                             ", ", absl::GetFlag(FLAGS_threads), " thread(s)"));
  for (const absl::string_view model : absl::StrSplit(absl::GetFlag(FLAGS_models), ',')) {
    RETURN_IF_ERROR(Measure(std::string(model), towers, report));
  }
  return report.Finish(absl::GetFlag(FLAGS_out));
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(
      argc, argv, "Measures what more towers than devices cost: memory, compilation, and speed.",
      belfry::benchmarks::Run);
}
