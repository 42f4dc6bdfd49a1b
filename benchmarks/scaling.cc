// Benchmark of scaling: training speed on 1, 2, 4 ... devices, strong (one batch shared by all) and weak (one batch
// each), with the parts of a step from its trace: computing, averaging, and the averaging that no computing hid. For
// comparison, the machine's limit: as many independent programs for one device, each on its own thread.
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "benchmarks/allreduce_run.h"
#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/report.h"
#include "benchmarks/scaling_page.h"
#include "benchmarks/step_times.h"
#include "benchmarks/training_run.h"
#include "framework/base/cores.h"
#include "framework/base/status.h"

ABSL_FLAG(std::string, model, "cifar_net", "Models to train, separated by commas; see --model of `training`.");
ABSL_FLAG(std::string, kind, "cpu", "Kind of devices: cpu (one thread each) or gpu.");
ABSL_FLAG(int, most, 0, "Largest number of devices; 0: all cores, or all GPUs.");
ABSL_FLAG(int, virtual_gpus, 1, "GPU devices per card.");
ABSL_FLAG(int64_t, batch_size, 0,
          "Examples per step: in all for strong scaling, per device for weak scaling; 0: the model's default.");
ABSL_FLAG(std::string, dtype, "float32", "Type in which the network computes: float32, bfloat16 or float16.");
ABSL_FLAG(int, rounds, 25, "Measurements of each configuration, taken in turn.");
ABSL_FLAG(double, seconds, 0.3, "Length of a measurement in seconds.");
ABSL_FLAG(int, trace_steps, 20, "Number of steps to trace in each configuration.");
ABSL_FLAG(std::string, averager, "local", "Averagers, separated by commas: local, or nccl among GPUs.");
ABSL_FLAG(std::string, out, ".", "Directory for results as JSON and CSV, and for their chart, scaling.html.");

namespace belfry::benchmarks {
namespace {

// Steps of each independent program before all wait for the slowest.
constexpr int kStepsApart = 10;

struct Setup {
  std::string program;  // "cifar_net, strong"
  int devices;
  size_t base;                                     // of all setups, the one with one device and the same model
  std::vector<std::unique_ptr<TrainingRun>> runs;  // one, or one for each device if they are independent

  bool apart() const { return runs.size() > 1; }
  int64_t batch() const { return runs[0]->batch() * static_cast<int64_t>(runs.size()); }
  int64_t examples() const { return batch() * (apart() ? kStepsApart : 1); }  // in one call of Step

  absl::Status Step() const {
    if (!apart()) return runs[0]->Step();
    std::vector<absl::Status> statuses(runs.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < runs.size(); ++i) {
      threads.emplace_back([run = runs[i].get(), &status = statuses[i]] {
        for (int k = 0; k < kStepsApart; ++k) status.Update(run->Step());
        status.Update(run->Wait());
      });
    }
    absl::Status status;
    for (size_t i = 0; i < threads.size(); ++i) {
      threads[i].join();
      status.Update(statuses[i]);
    }
    return status;
  }
};

bool OnCpus() { return absl::GetFlag(FLAGS_kind) == "cpu"; }

absl::Status CheckFlags() {
  if (const std::string kind = absl::GetFlag(FLAGS_kind); kind != "cpu" && kind != "gpu") {
    return absl::InvalidArgumentError(absl::StrCat("--kind=", kind, " is unknown; the kinds are cpu and gpu"));
  }
  if (absl::GetFlag(FLAGS_most) < 0) return absl::InvalidArgumentError("--most must be at least 0");
  if (absl::GetFlag(FLAGS_batch_size) < 0) return absl::InvalidArgumentError("--batch_size must be at least 0");
  if (absl::GetFlag(FLAGS_rounds) < 1) return absl::InvalidArgumentError("--rounds must be at least 1");
  if (!(absl::GetFlag(FLAGS_seconds) > 0)) return absl::InvalidArgumentError("--seconds must be above 0");
  return absl::OkStatus();
}

absl::StatusOr<int> MostDevices() {
  if (const int asked = absl::GetFlag(FLAGS_most); asked > 0) return asked;
  if (OnCpus()) return static_cast<int>(AvailableCores().size());
  return CountGpuDevices({.virtual_gpus = absl::GetFlag(FLAGS_virtual_gpus)});
}

absl::StatusOr<std::unique_ptr<TrainingRun>> MakeRun(const std::string& model, const std::string& averager, int devices,
                                                     int64_t batch, const std::string& visible_gpus) {
  TrainingOptions options{.model = model,
                          .devices = absl::StrCat(absl::GetFlag(FLAGS_kind), ":", devices),
                          .device = {.virtual_gpus = absl::GetFlag(FLAGS_virtual_gpus), .visible_gpus = visible_gpus},
                          .batch = batch,
                          .dtype = absl::GetFlag(FLAGS_dtype)};
  if (OnCpus()) options.device.cpu_threads = 1;
  if (OnCpus() && averager == "nccl") {
    return absl::InvalidArgumentError("--averager=nccl averages among GPUs; set --kind=gpu as well");
  }
  ASSIGN_OR_RETURN(options.session.collectives, FindAverager(averager));
  return TrainingRun::Create(options);
}

// The setups of a model: of both modes, which are the same with one device, with each averager, and of programs apart.
absl::Status AddSetups(const std::string& name, std::vector<Setup>& setups) {
  ASSIGN_OR_RETURN(const BenchModel model, FindModel(name));
  ASSIGN_OR_RETURN(const int most, MostDevices());
  const int64_t batch = absl::GetFlag(FLAGS_batch_size) > 0 ? absl::GetFlag(FLAGS_batch_size) : model.batch;
  const std::vector<std::string> averagers = absl::StrSplit(absl::GetFlag(FLAGS_averager), ',');
  const size_t base = setups.size();
  const auto add = [&](const std::string& program, const std::string& averager, int devices, int programs,
                       int64_t of_each) {
    Setup& setup = setups.emplace_back(
        Setup{.program = absl::StrCat(name, ", ", program), .devices = devices * programs, .base = base, .runs = {}});
    for (int i = 0; i < programs; ++i) {
      ASSIGN_OR_RETURN(setup.runs.emplace_back(),
                       MakeRun(name, averager, devices, of_each, OnCpus() || programs == 1 ? "" : absl::StrCat(i)));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add("one", "local", 1, 1, batch));
  for (int devices = 2; devices <= most; devices *= 2) {
    for (const std::string& averager : averagers) {
      const std::string suffix = averager == "local" ? "" : absl::StrCat(", ", averager);
      RETURN_IF_ERROR(add("strong" + suffix, averager, devices, 1, batch));
      RETURN_IF_ERROR(add("weak" + suffix, averager, devices, 1, batch * devices));
    }
    // A virtual GPU cannot be opened without the others of its card.
    if (absl::GetFlag(FLAGS_virtual_gpus) == 1) RETURN_IF_ERROR(add("apart", "local", 1, devices, batch));
  }
  return absl::OkStatus();
}

// The rates of a setup and, if its devices share a program, the parts of its step.
absl::StatusOr<nlohmann::ordered_json> RowOf(const Setup& setup, const Side& side, const Side& base) {
  const std::vector<double> speed_ups = Ratios(side, base);
  nlohmann::ordered_json row = {{"program", setup.program}, {"devices", setup.devices}, {"batch", setup.batch()}};
  AddSpread(row, "images/s", side.rates);
  AddSpread(row, "speed_up", speed_ups);
  row["efficiency"] = Median(speed_ups) / setup.devices;
  if (setup.apart()) return row;
  ASSIGN_OR_RETURN(const std::vector<StepTrace> traces, setup.runs[0]->TracedSteps(absl::GetFlag(FLAGS_trace_steps)));
  const StepParts parts = PartsOf(setup.runs[0]->prepared().plan(), traces);
  row.update({{"step_ms", parts.step * 1e3},
              {"compute_ms", parts.compute * 1e3},
              {"averaging_ms", parts.averaging * 1e3},
              {"exposed_ms", parts.exposed * 1e3}});
  return row;
}

absl::Status Run() {
  RETURN_IF_ERROR(CheckFlags());
  std::vector<Setup> setups;
  const std::vector<std::string> models = absl::StrSplit(absl::GetFlag(FLAGS_model), ',');
  for (const std::string& model : models) RETURN_IF_ERROR(AddSetups(model, setups));
  std::vector<Side> sides;
  for (const Setup& setup : setups) {
    sides.push_back({.name = setup.program,
                     .step = [&setup] { return setup.Step(); },
                     .items_per_step = static_cast<double>(setup.examples()),
                     .finish = [&setup] { return setup.runs[0]->Wait(); }});
  }
  RETURN_IF_ERROR(RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds)));

  const std::string kind = absl::AsciiStrToUpper(absl::GetFlag(FLAGS_kind));
  Report report("scaling", absl::StrFormat("Scaling of %s in %s over %s devices%s; medians [min .. max] of the rounds",
                                           absl::StrJoin(models, ", "), absl::GetFlag(FLAGS_dtype), kind,
                                           OnCpus() ? " of a thread each" : ""));
  for (size_t i = 0; i < setups.size(); ++i) {
    const Setup& setup = setups[i];
    ASSIGN_OR_RETURN(nlohmann::ordered_json row, RowOf(setup, sides[i], sides[setup.base]));
    if (setup.devices > 1) {
      report.Summarize(absl::StrFormat("%s, %d %s devices: speed-up %s, efficiency %s", setup.program, setup.devices,
                                       kind, ShortNumber(row["speed_up"].get<double>()),
                                       ShortNumber(row["efficiency"].get<double>())));
    }
    report.Add(std::move(row));
  }
  const std::string out = absl::GetFlag(FLAGS_out);
  RETURN_IF_ERROR(report.Finish(out));
  ASSIGN_OR_RETURN(const std::string path, WriteScalingPage(report.Json(), out));
  std::printf("Chart: %s\n", path.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(argc, argv, "Measures training speed by number of devices.",
                                          belfry::benchmarks::Run);
}
