// Benchmark of kernels. First every kernel in the training steps of the tutorial network and of ResNet-20, as the plan
// runs it, in its layout and with everything fused into it: time, and shares of the measured multiply-add peak and of
// the measured memory bandwidth. Then large element-wise ops and reductions, compared with the latter.
#include <functional>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "benchmarks/bench_model.h"
#include "benchmarks/kernel_shares.h"
#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/report.h"
#include "benchmarks/step_times.h"
#include "benchmarks/training_run.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"

ABSL_FLAG(std::string, models, "cifar_net,resnet20", "Models whose kernels are measured; see --model of `training`.");
ABSL_FLAG(int64_t, batch_size, 0, "Examples per step; 0: the model's default.");
ABSL_FLAG(int, threads, 1, "Number of threads.");
ABSL_FLAG(std::string, dtype, "float32", "Type in which the network computes: float32, bfloat16 or float16.");
ABSL_FLAG(int, steps, 30, "Number of steps to trace.");
ABSL_FLAG(double, least, 0.005, "Leave out ops whose kernels take less than this share of the step.");
ABSL_FLAG(int64_t, elements, int64_t{16} << 20, "Number of elements of the large ops.");
ABSL_FLAG(int, rounds, 5, "Measurements of each large op.");
ABSL_FLAG(double, seconds, 0.2, "Length of a measurement in seconds.");
ABSL_FLAG(std::string, out, "", "Directory for results as JSON and CSV; empty: none.");

namespace belfry::benchmarks {
namespace {

absl::Status MeasureModel(const std::string& model, const Limits& limits, Report& report) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRun> run,
                   TrainingRun::Create({.model = model,
                                        .device = {.cpu_threads = absl::GetFlag(FLAGS_threads)},
                                        .batch = absl::GetFlag(FLAGS_batch_size),
                                        .dtype = absl::GetFlag(FLAGS_dtype)}));
  ASSIGN_OR_RETURN(const std::vector<StepTrace> traces, run->TracedSteps(absl::GetFlag(FLAGS_steps)));
  AddKernels(model, run->prepared().plan(), traces, limits, absl::GetFlag(FLAGS_least), report);
  return absl::OkStatus();
}

// One op on large variables, and the bytes that it must read and write.
struct LargeOp {
  const char* name;
  int inputs;
  bool writes;  // true if it writes as many elements as it reads from one input
  std::function<Output(const Scope&, Output, Output)> build;
};

std::vector<LargeOp> LargeOps() {
  return {
      {"Add", 2, true, [](const Scope& s, Output a, Output b) { return ops::Add(s, a, b); }},
      {"Mul", 2, true, [](const Scope& s, Output a, Output b) { return ops::Mul(s, a, b); }},
      {"Relu", 1, true, [](const Scope& s, Output a, Output) { return ops::Relu(s, a); }},
      {"Exp", 1, true, [](const Scope& s, Output a, Output) { return ops::Exp(s, a); }},
      {"Tanh", 1, true, [](const Scope& s, Output a, Output) { return ops::Tanh(s, a); }},
      {"Sum", 1, false, [](const Scope& s, Output a, Output) { return ops::Sum(s, a); }},
      {"Sum of rows", 1, false, [](const Scope& s, Output a, Output) { return ops::Sum(s, a, {1}); }},
      {"Sum of columns", 1, false, [](const Scope& s, Output a, Output) { return ops::Sum(s, a, {0}); }},
      {"Max of rows", 1, false, [](const Scope& s, Output a, Output) { return ops::Max(s, a, {1}); }},
      {"Mean of squares of differences", 2, false,
       [](const Scope& s, Output a, Output b) { return ops::Mean(s, ops::Square(s, ops::Sub(s, a, b))); }},
  };
}

absl::Status MeasureLarge(const LargeOp& op, double triad, Report& report) {
  constexpr int64_t kColumns = 1024;
  const Shape shape = {std::max<int64_t>(1, absl::GetFlag(FLAGS_elements) / kColumns), kColumns};
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:1", {.cpu_threads = absl::GetFlag(FLAGS_threads)}));
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Variable a = GetVariable(scope, "a", shape, NormalInitializer(1));
  const Variable b = op.inputs > 1 ? GetVariable(scope, "b", shape, NormalInitializer(1)) : a;
  const Output result = op.build(scope, a, b);
  const Node* initialize = InitializeVariables(scope);
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
  RETURN_IF_ERROR(session->RunTarget(initialize));
  // Fetch the result only where that is cheap, because a fetch is a copy.
  std::vector<Output> fetches;
  if (!op.writes) fetches.push_back(result);
  ASSIGN_OR_RETURN(const auto step, session->Prepare({}, fetches, {result.node}));
  const double bytes = static_cast<double>(shape.elements()) * sizeof(float) * (op.inputs + (op.writes ? 1 : 0));
  std::vector<Side> sides = {{.name = op.name, .step = [&] { return step->Run(); }, .items_per_step = bytes / 1e9}};
  RETURN_IF_ERROR(RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds)));
  const std::vector<double>& rates = sides[0].rates;
  nlohmann::ordered_json row = {{"op", op.name}, {"input", TensorSpec{DType::kFloat32, shape}.ToString()}};
  row["us"] = bytes / Median(rates) / 1e3;
  AddSpread(row, "GB/s", rates);
  row["of_triad"] = Median(rates) * 1e9 / triad;
  report.Summarize(absl::StrCat(op.name, ": ", ShortNumber(Median(rates)), " GB/s, ",
                                ShortNumber(100 * Median(rates) * 1e9 / triad), "% of the triad"));
  report.Add(std::move(row));
  return absl::OkStatus();
}

absl::Status Run() {
  const int threads = absl::GetFlag(FLAGS_threads);
  if (threads < 1 || absl::GetFlag(FLAGS_steps) < 1 || absl::GetFlag(FLAGS_rounds) < 1) {
    return absl::InvalidArgumentError("--threads, --steps and --rounds must be at least 1");
  }
  const std::vector<std::string> models = absl::StrSplit(absl::GetFlag(FLAGS_models), ',', absl::SkipEmpty());
  for (const std::string& model : models) RETURN_IF_ERROR(FindModel(model).status());
  ASSIGN_OR_RETURN(const DType dtype, ParseDType(absl::GetFlag(FLAGS_dtype)));
  const Limits limits = MeasureLimits(threads, dtype);
  Report kernels("ops", absl::StrCat("Kernels of training steps, ", threads, " thread(s), ", absl::GetFlag(FLAGS_dtype),
                                     ", medians of ", absl::GetFlag(FLAGS_steps), " traced steps; ", Text(limits)));
  for (const std::string& model : models) RETURN_IF_ERROR(MeasureModel(model, limits, kernels));
  RETURN_IF_ERROR(kernels.Finish(absl::GetFlag(FLAGS_out)));
  Report large("ops_large", absl::StrCat("Large ops, ", threads, " thread(s); measured triad ",
                                         ShortNumber(limits.triad / 1e9), " GB/s"));
  for (const LargeOp& op : LargeOps()) RETURN_IF_ERROR(MeasureLarge(op, limits.triad, large));
  return large.Finish(absl::GetFlag(FLAGS_out));
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(argc, argv, "Compares the speed of kernels with the peak of the machine.",
                                          belfry::benchmarks::Run);
}
