// Benchmark of training: steps per second of a model on any devices, on synthetic examples that stay the same.
// benchmarks/peers/compare.py runs it in turn with the same model in other frameworks.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "benchmarks/machine.h"
#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/report.h"
#include "benchmarks/serve.h"
#include "benchmarks/step_times.h"
#include "benchmarks/training_run.h"
#include "framework/base/status.h"
#include "framework/runtime/trace_report.h"

ABSL_FLAG(std::string, devices, "cpu:1", "Devices, with one tower on each: cpu:N or gpu:N.");
ABSL_FLAG(int, threads, 0, "Threads per CPU device; 0: an even share of the cores.");
ABSL_FLAG(std::string, model, "cifar_net,cifar_net_no_lrn,resnet20,resnet56,mlp,s5",
          "Models to train, a row each: cifar_net, cifar_net_no_lrn, resnet20 to resnet110, mlp, dlrm, gpt, "
          "gpt_padded, gpt2, s5.");
ABSL_FLAG(int64_t, batch_size, 0,
          "Examples per step over all towers, a multiple of their number; 0: the model's default.");
ABSL_FLAG(int, micro_batches, 1,
          "Towers that each device runs one after the other; traces then show their update only.");
ABSL_FLAG(std::string, dtype, "float32",
          "Type in which the network computes: float32, bfloat16 or float16. Weights are float32.");
ABSL_FLAG(bool, tf32, true, "Products of float32 with 10 bits of mantissa (TF32) on GPUs.");
ABSL_FLAG(std::string, batch_norm, "per_tower",
          "Examples over which batch normalisation takes its statistics: per_tower or synchronised.");
ABSL_FLAG(int, rounds, 5, "Number of measurements.");
ABSL_FLAG(double, seconds, 2, "Length of a measurement in seconds.");
ABSL_FLAG(int, trace_steps, 5, "Number of steps to trace at the end, with the devices' clocks (CUDA events on GPUs).");
ABSL_FLAG(bool, trace_table, false, "Print the time by op, by layer and by stream from the traces.");
ABSL_FLAG(bool, replay, true, "On GPUs, capture a steady step as a CUDA graph and replay it.");
ABSL_FLAG(bool, machine, false, "Only print the processor, its cores, and the peak rate of multiply-adds on one.");
ABSL_FLAG(bool, serve, false, "Train on commands from standard input; see benchmarks/peers/README.md.");
ABSL_FLAG(std::string, write_problem, "",
          "Only write the initial values and examples to this safetensors file, so that other programs can do the same "
          "work.");
ABSL_FLAG(std::string, out, "", "Directory for results as JSON and CSV; empty: none.");

namespace belfry::benchmarks {
namespace {

constexpr int kHostSteps = 200, kOpsShown = 4;

// Microseconds that the host takes to enqueue a step while nothing is in progress, so that Run does not wait for an
// earlier step. Empty if steps are complete when Run returns.
absl::StatusOr<std::vector<double>> HostTimes(TrainingRun& run) {
  std::vector<double> host;
  for (int i = 0; run.prepared().asynchronous() && i < kHostSteps; ++i) {
    RETURN_IF_ERROR(run.Wait());
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(run.Step());
    host.push_back(Seconds(begin) * 1e6);
  }
  RETURN_IF_ERROR(run.Wait());
  return host;
}

absl::Status Measure(TrainingRun& run, Report& report) {
  std::vector<Side> sides = {SideOf(run.model().name, run)};
  RETURN_IF_ERROR(RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds)));
  const std::vector<double>& rates = sides[0].rates;
  ASSIGN_OR_RETURN(const std::vector<double> host, HostTimes(run));
  const float loss = run.loss();
  ASSIGN_OR_RETURN(const std::vector<StepTrace> traces, run.TracedSteps(absl::GetFlag(FLAGS_trace_steps)));
  const Plan& plan = run.prepared().plan();

  const std::string unit = absl::StrCat(run.model().unit, "/s");
  const double step_seconds = static_cast<double>(run.batch() * run.model().units) / Median(rates);
  nlohmann::ordered_json row = {{"model", run.model().name}, {"batch", run.batch()}};
  AddSpread(row, unit, rates);
  row["us_a_step"] = step_seconds * 1e6;
  row["GFLOP/s"] = FlopsOfStep(plan) / step_seconds / 1e9;
  row["loss"] = loss;
  row["replayed"] = run.prepared().replays() ? "yes" : "no";
  if (!host.empty()) row["host_us"] = Median(host);
  row["kernels"] = Split(plan, NodeTimes(plan, traces), kOpsShown);
  report.Add(std::move(row));
  report.Summarize(absl::StrCat(run.model().name, " on ", absl::GetFlag(FLAGS_devices), ": ",
                                ShortNumber(Median(rates)), " ", unit));
  if (absl::GetFlag(FLAGS_trace_table)) std::printf("%s\n", TraceTable(plan, run.devices(), traces).c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TrainingRun>> MakeRun(const std::string& model) {
  ASSIGN_OR_RETURN(const models::BatchNormPolicy batch_norm,
                   models::ParseBatchNormPolicy(absl::GetFlag(FLAGS_batch_norm)));
  return TrainingRun::Create(
      {.model = model,
       .devices = absl::GetFlag(FLAGS_devices),
       .device = {.cpu_threads = absl::GetFlag(FLAGS_threads), .math = {.tf32 = absl::GetFlag(FLAGS_tf32)}},
       .batch = absl::GetFlag(FLAGS_batch_size),
       .dtype = absl::GetFlag(FLAGS_dtype),
       .replicate = {.micro_batches = absl::GetFlag(FLAGS_micro_batches), .batch_norm = batch_norm},
       .session = {.replay = absl::GetFlag(FLAGS_replay)}});
}

absl::Status Run() {
  if (absl::GetFlag(FLAGS_rounds) < 1 || absl::GetFlag(FLAGS_trace_steps) < 1 || !(absl::GetFlag(FLAGS_seconds) > 0)) {
    return absl::InvalidArgumentError("--rounds and --trace_steps must be at least 1, and --seconds above 0");
  }
  if (absl::GetFlag(FLAGS_machine)) {
    std::printf("%s\n", MachineText().c_str());
    return absl::OkStatus();
  }
  const std::string path = absl::GetFlag(FLAGS_write_problem);
  const std::vector<std::string> models = absl::StrSplit(absl::GetFlag(FLAGS_model), ',');
  if (absl::GetFlag(FLAGS_serve) || !path.empty()) {
    if (models.size() != 1) return absl::InvalidArgumentError("--serve and --write_problem take exactly one --model");
    ASSIGN_OR_RETURN(const MemoryUse before, ReadMemoryUse());
    ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRun> run, MakeRun(models[0]));
    if (path.empty()) return Serve(*run, before);
    ASSIGN_OR_RETURN(const std::vector<io::NamedTensor> problem, run->Problem());
    return io::WriteSafetensors(path, problem);
  }
  const std::string dtype = absl::GetFlag(FLAGS_dtype);
  Report report(dtype == "float32" ? "training" : absl::StrCat("training_", dtype),
                absl::StrCat("Training on ", absl::GetFlag(FLAGS_devices), ", ", dtype, ", ",
                             absl::GetFlag(FLAGS_threads), " threads a CPU device (0: a share of the cores)"));
  for (const std::string& model : models) {
    ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRun> run, MakeRun(model));
    RETURN_IF_ERROR(Measure(*run, report));
  }
  return report.Finish(absl::GetFlag(FLAGS_out));
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(
      argc, argv, "Measures training speed on any devices, in images or tokens per second.", belfry::benchmarks::Run);
}
