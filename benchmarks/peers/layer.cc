#include "benchmarks/peers/layer.h"

#include <cmath>
#include <cstdio>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/kernel_shares.h"
#include "benchmarks/main.h"
#include "benchmarks/memory_use.h"
#include "benchmarks/report.h"
#include "benchmarks/serve.h"
#include "framework/base/status.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/state.h"

ABSL_FLAG(bool, backward, false, "Compute the gradients of all inputs, too.");
ABSL_FLAG(int, threads, 1, "Number of threads.");
ABSL_FLAG(bool, serve, false, "Speak the protocol of benchmarks/peers/README.md.");

namespace belfry::benchmarks {
namespace {

Tensor Numbers(const Shape& shape, uint32_t seed, float scale) {
  Tensor x(DType::kFloat32, shape);
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto bits = static_cast<uint32_t>(i) * 2654435761u + seed * 40503u;
    x.data<float>()[i] = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f * scale;
  }
  return x;
}

absl::Status PrintKernels(const Layer& layer, PreparedStep& step) {
  constexpr int kSteps = 30;
  std::vector<StepTrace> traces(kSteps);
  for (StepTrace& trace : traces) RETURN_IF_ERROR(step.RunTraced({}, trace));
  const int threads = absl::GetFlag(FLAGS_threads);
  const Limits limits = MeasureLimits(threads, layer.y.dtype());
  Report report(layer.name,
                absl::StrCat("Kernels, ", threads, " thread(s), medians of ", kSteps, " traced steps; ", Text(limits)));
  AddKernels(layer.name, step.plan(), traces, limits, 0.01, report);
  return report.Finish("");
}

absl::Status Run(absl::FunctionRef<absl::StatusOr<Layer>(const Scope&)> make) {
  ASSIGN_OR_RETURN(const MemoryUse before, ReadMemoryUse());
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:1", {.cpu_threads = absl::GetFlag(FLAGS_threads)}));
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  ASSIGN_OR_RETURN(const Layer layer, make(scope));
  std::vector<Output> results = {layer.y};
  if (absl::GetFlag(FLAGS_backward)) {
    ASSIGN_OR_RETURN(const std::vector<Output> dx, Gradients(scope, {layer.y}, layer.xs, {.grad_ys = {layer.dy}}));
    results.insert(results.end(), dx.begin(), dx.end());
  }
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, {.plan_cache_bytes = 0}));
  RETURN_IF_ERROR(session->Run(layer.feeds, {}, layer.assignments).status());
  ASSIGN_OR_RETURN(const std::vector<Tensor> first, session->Run(results));
  std::vector<double> root_mean_squares;
  for (const Tensor& tensor : first) {
    double squares = 0;
    for (const double value : tensor.ToDoubles()) squares += value * value;
    root_mean_squares.push_back(std::sqrt(squares / static_cast<double>(tensor.elements())));
  }
  std::vector<const Node*> nodes;
  for (const Output& each : results) nodes.push_back(each.node);
  ASSIGN_OR_RETURN(const auto step, session->Prepare({}, {}, nodes));
  const Side side{.name = layer.name, .step = [&] { return step->Run(); }, .finish = [&] { return step->Wait(); }};
  RETURN_IF_ERROR(Rate(side.step, 0.2, side.finish).status());
  ForgetPeak().IgnoreError();
  if (absl::GetFlag(FLAGS_serve)) {
    return AnswerCommands(root_mean_squares, side, [&] { return PeakBeyond(before); });
  }
  ASSIGN_OR_RETURN(const double steps, Rate(side.step, 1, side.finish));
  std::printf("%s %s, %s: %.3f ms\n", layer.name.c_str(), layer.y.shape().ToString().c_str(),
              absl::GetFlag(FLAGS_backward) ? "forward and backward" : "forward", 1e3 / steps);
  return PrintKernels(layer, *step);
}

}  // namespace

Output Layer::Add(const Scope& scope, const Shape& shape, float scale, DType dtype) {
  const Variable variable =
      GetVariable(scope, absl::StrCat("x", feeds.size()), shape, ZerosInitializer(), {.dtype = dtype});
  const Output fed = ops::Placeholder(scope, DType::kFloat32, shape);
  assignments.push_back(ops::Assign(scope, variable, ops::Cast(scope, fed, dtype)).node);
  feeds.push_back({fed, Numbers(shape, static_cast<uint32_t>(feeds.size()), scale)});
  return variable;
}

int RunLayer(int argc, char** argv, absl::string_view usage,
             absl::FunctionRef<absl::StatusOr<Layer>(const Scope&)> make) {
  return RunBenchmark(argc, argv, usage, [&] { return Run(make); });
}

}  // namespace belfry::benchmarks
