// Benchmark of the overhead of a step whose kernels cost next to nothing: chains and fan-outs of tiny element-wise ops,
// and linear regression on seven points, on one device, in two towers, and as the same thirteen kernels called from an
// array.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/report.h"
#include "benchmarks/training_run.h"
#include "framework/base/status.h"
#include "framework/runtime/session.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"

ABSL_FLAG(int, rounds, 7, "Measurements of each configuration, taken in turn.");
ABSL_FLAG(double, seconds, 0.3, "Length of a measurement in seconds.");
ABSL_FLAG(std::string, out, "", "Directory for results as JSON and CSV; empty: none.");

namespace belfry::benchmarks {
namespace {

constexpr float kX[] = {1, 23, 4, 5, 7, 5, 7}, kOut[] = {3, 5, 7, 9, 11, 13, 15};
constexpr int kPoints = 7, kScheduleKernels = 13;

template <class Function>
void ForPoints(const Function& function) {
  for (int i = 0; i < kPoints; ++i) function(i);
}

float Sum(const float* values) {
  float sum = 0;
  for (int i = 0; i < kPoints; ++i) sum += values[i];
  return sum;
}

// The step as a static schedule of small kernels behind function pointers, without a framework.
struct Schedule {
  float w = 0, b = 0, loss = 0, sum = 0, gw = 0, gb = 0;
  float wx[kPoints], y[kPoints], e[kPoints], e2[kPoints], g[kPoints], gx[kPoints];
  std::vector<void (*)(Schedule&)> kernels = {
      [](Schedule& s) { ForPoints([&](int i) { s.wx[i] = s.w * kX[i]; }); },
      [](Schedule& s) { ForPoints([&](int i) { s.y[i] = s.wx[i] + s.b; }); },
      [](Schedule& s) { ForPoints([&](int i) { s.e[i] = s.y[i] - kOut[i]; }); },
      [](Schedule& s) { ForPoints([&](int i) { s.e2[i] = s.e[i] * s.e[i]; }); },
      [](Schedule& s) { s.sum = Sum(s.e2); },
      [](Schedule& s) { s.loss = s.sum / kPoints; },
      [](Schedule& s) { ForPoints([&](int i) { s.g[i] = 2 * s.e[i]; }); },
      [](Schedule& s) { ForPoints([&](int i) { s.g[i] /= kPoints; }); },
      [](Schedule& s) { ForPoints([&](int i) { s.gx[i] = s.g[i] * kX[i]; }); },
      [](Schedule& s) { s.gw = Sum(s.gx); },
      [](Schedule& s) { s.gb = Sum(s.g); },
      [](Schedule& s) { s.w -= 0.01f * s.gw; },
      [](Schedule& s) { s.b -= 0.01f * s.gb; },
  };
  absl::Status Step() {
    for (auto* kernel : kernels) kernel(*this);
    return absl::OkStatus();
  }
};

// A step of tiny ops on one CPU device. It depends on a variable, so nothing is computed ahead.
class TinyOps {
 public:
  // `build` adds the ops to x, float32 [8], and returns an output that depends on all of them.
  static absl::StatusOr<std::unique_ptr<TinyOps>> Create(const std::function<Output(const Scope&, Output x)>& build) {
    std::unique_ptr<TinyOps> tiny(new TinyOps);
    ASSIGN_OR_RETURN(tiny->devices_, DeviceSet::Open("cpu:1", {.cpu_threads = 1}));
    const Scope scope(tiny->graph_);
    const Variable x = GetVariable(scope, "x", {8}, ZerosInitializer());
    const Output result = build(scope, x);
    const Node* initialize = InitializeVariables(scope);
    ASSIGN_OR_RETURN(tiny->session_, Session::Create(tiny->graph_, tiny->devices_, {.fuse = false}));
    RETURN_IF_ERROR(tiny->session_->RunTarget(initialize));
    ASSIGN_OR_RETURN(tiny->step_, tiny->session_->Prepare({}, {result}));
    return tiny;
  }
  absl::Status Step() { return step_->Run(); }

 private:
  TinyOps() = default;
  DeviceSet devices_;
  Graph graph_{BuiltinOps()};
  std::unique_ptr<Session> session_;
  std::unique_ptr<PreparedStep> step_;
};

Output Chain(const Scope& scope, Output x, int ops) {
  Output y = x;
  for (int i = 0; i < ops; ++i) y = ops::Add(scope, y, x);
  return y;
}

// `ops` independent ops on x, all added to one sum.
Output FanOut(const Scope& scope, Output x, int ops) {
  std::vector<Output> all;
  for (int i = 0; i < ops; ++i) all.push_back(ops::Scale(scope, x, i + 2));
  return ops::AddN(scope, all);
}

absl::Status Run() {
  if (absl::GetFlag(FLAGS_rounds) < 1 || !(absl::GetFlag(FLAGS_seconds) > 0)) {
    return absl::InvalidArgumentError("--rounds must be at least 1, and --seconds above 0");
  }
  std::vector<Side> sides;
  std::vector<int> ops;  // of each side; 0 if not counted
  const auto add = [&](std::string name, int count, std::function<absl::Status()> step) {
    sides.push_back({.name = std::move(name), .step = std::move(step)});
    ops.push_back(count);
  };
  for (int count : {10, 100, 1000}) {
    for (const auto& [name, build] : {std::pair("chain of ", &Chain), std::pair("fan-out of ", &FanOut)}) {
      ASSIGN_OR_RETURN(
          std::shared_ptr<TinyOps> tiny,
          TinyOps::Create([build = build, count](const Scope& scope, Output x) { return build(scope, x, count); }));
      add(absl::StrCat(name, count), count, [tiny] { return tiny->Step(); });
    }
  }
  ASSIGN_OR_RETURN(const auto one, TrainingRun::Create({.model = "s5", .device = {.cpu_threads = 1}}));
  ASSIGN_OR_RETURN(const auto two,
                   TrainingRun::Create({.model = "s5", .devices = "cpu:2", .device = {.cpu_threads = 1}}));
  Schedule schedule;
  add("linear regression (S5)", 0, [&] { return one->Step(); });
  add("linear regression, two towers", 0, [&] { return two->Step(); });
  add("13 kernels behind function pointers", kScheduleKernels, [&] { return schedule.Step(); });
  RETURN_IF_ERROR(RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds)));

  Report report("step_overhead", "Steps of ops that compute next to nothing");
  for (size_t i = 0; i < sides.size(); ++i) {
    std::vector<double> microseconds;
    for (double rate : sides[i].rates) microseconds.push_back(1e6 / rate);
    nlohmann::ordered_json row = {{"step", sides[i].name}};
    AddSpread(row, "us", microseconds);
    if (ops[i] > 0) row["ns_per_op"] = Median(microseconds) * 1e3 / ops[i];
    report.Add(std::move(row));
    report.Summarize(absl::StrCat(sides[i].name, ": ", ShortNumber(Median(microseconds)), " us a step"));
  }
  std::printf("losses of the last steps: %.5f, two towers %.5f, the bare schedule %.5f\n", one->loss(), two->loss(),
              schedule.loss);
  return report.Finish(absl::GetFlag(FLAGS_out));
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(argc, argv, "Measures the overhead of a step beside its kernels.",
                                          belfry::benchmarks::Run);
}
