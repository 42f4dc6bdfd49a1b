// Belfry's side of the comparison of an LSTM layer with PyTorch (lstm.py), of tensors that a formula gives both sides.
// Without --serve it prints its own speed, and that of its kernels beside the limits of the machine.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

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
#include "ops/math.h"
#include "ops/recurrent.h"
#include "ops/state.h"

ABSL_FLAG(int64_t, batch_size, 32, "Sequences.");
ABSL_FLAG(int64_t, length, 64, "Steps of a sequence.");
ABSL_FLAG(int64_t, inputs, 256, "Width of the input.");
ABSL_FLAG(int64_t, units, 256, "Units of the layer.");
ABSL_FLAG(bool, gru, false, "Gated recurrent units instead of an LSTM.");
ABSL_FLAG(bool, backward, false, "Compute the gradients of the input, weights and biases, too.");
ABSL_FLAG(int, threads, 1, "Number of threads.");
ABSL_FLAG(bool, serve, false, "Speak the protocol of benchmarks/peers/README.md.");

namespace belfry::benchmarks {
namespace {

// Numbers from -1 to 1 that lstm.py computes as well, times `scale`.
Tensor Numbers(const Shape& shape, uint32_t seed, float scale) {
  Tensor x(DType::kFloat32, shape);
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto bits = static_cast<uint32_t>(i) * 2654435761u + seed * 40503u;
    x.data<float>()[i] = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f * scale;
  }
  return x;
}

double RootMeanSquare(const Tensor& x) {
  double squares = 0;
  for (const double value : x.ToDoubles()) squares += value * value;
  return std::sqrt(squares / static_cast<double>(x.elements()));
}

// The layer's variables and the nodes that set them.
struct Layer {
  std::vector<Output> xs;  // x, weights, recurrent weights, biases and, for a GRU, recurrent biases
  Output dy, y;
  std::vector<Feed> feeds;
  std::vector<const Node*> assignments;
};

Layer MakeLayer(const Scope& scope) {
  const int64_t n = absl::GetFlag(FLAGS_batch_size), t = absl::GetFlag(FLAGS_length);
  const int64_t inputs = absl::GetFlag(FLAGS_inputs), units = absl::GetFlag(FLAGS_units);
  const bool gru = absl::GetFlag(FLAGS_gru);
  const int64_t columns = (gru ? 3 : 4) * units;
  Layer layer;
  const auto add = [&](const std::string& name, const Shape& shape, float scale) {
    const Variable kept = GetVariable(scope, name, shape, ZerosInitializer());
    const Output fed = ops::Placeholder(scope, DType::kFloat32, shape);
    layer.assignments.push_back(ops::Assign(scope, kept, fed).node);
    layer.feeds.push_back({fed, Numbers(shape, static_cast<uint32_t>(layer.feeds.size()), scale)});
    return kept.value();
  };
  const float scale = 2 / std::sqrt(static_cast<float>(units));
  layer.dy = add("dy", {n, t, units}, 1);
  layer.xs = {add("x", {n, t, inputs}, 1), add("weights", {inputs, columns}, scale),
              add("recurrent_weights", {units, columns}, scale), add("biases", {columns}, 1)};
  if (gru) layer.xs.push_back(add("recurrent_biases", {columns}, 1));
  const std::vector<Output>& in = layer.xs;
  layer.y = gru ? ops::Gru(scope, in[0], in[1], in[2], {.biases = in[3], .recurrent_biases = in[4]}).y
                : ops::Lstm(scope, in[0], in[1], in[2], {.biases = in[3]}).y;
  return layer;
}

absl::Status PrintKernels(PreparedStep& step) {
  constexpr int kSteps = 30;
  std::vector<StepTrace> traces(kSteps);
  for (StepTrace& trace : traces) RETURN_IF_ERROR(step.RunTraced({}, trace));
  const int threads = absl::GetFlag(FLAGS_threads);
  const Limits limits = MeasureLimits(threads);
  Report report("lstm",
                absl::StrCat("Kernels, ", threads, " thread(s), medians of ", kSteps, " traced steps; ", Text(limits)));
  AddKernels(absl::GetFlag(FLAGS_gru) ? "gru" : "lstm", step.plan(), traces, limits, 0.01, report);
  return report.Finish("");
}

absl::Status Run() {
  ASSIGN_OR_RETURN(const MemoryUse before, ReadMemoryUse());
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:1", {.cpu_threads = absl::GetFlag(FLAGS_threads)}));
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Layer layer = MakeLayer(scope);
  std::vector<Output> results = {layer.y};
  if (absl::GetFlag(FLAGS_backward)) {
    ASSIGN_OR_RETURN(const std::vector<Output> dx, Gradients(scope, {layer.y}, layer.xs, {.grad_ys = {layer.dy}}));
    results.insert(results.end(), dx.begin(), dx.end());
  }
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, {.plan_cache_bytes = 0}));
  RETURN_IF_ERROR(session->Run(layer.feeds, {}, layer.assignments).status());
  std::vector<double> values;
  std::vector<const Node*> nodes;
  ASSIGN_OR_RETURN(const std::vector<Tensor> first, session->Run(results));
  for (const Tensor& each : first) values.push_back(RootMeanSquare(each));
  for (const Output& each : results) nodes.push_back(each.node);
  ASSIGN_OR_RETURN(const auto step, session->Prepare({}, {}, nodes));
  const Side side{.name = "Belfry", .step = [&] { return step->Run(); }, .finish = [&] { return step->Wait(); }};
  RETURN_IF_ERROR(Rate(side.step, 0.2, side.finish).status());
  ForgetPeak().IgnoreError();
  if (!absl::GetFlag(FLAGS_serve)) {
    ASSIGN_OR_RETURN(const double steps, Rate(side.step, 1, side.finish));
    std::printf("%s %s, %s: %.3f ms\n", absl::GetFlag(FLAGS_gru) ? "GRU" : "LSTM", layer.y.shape().ToString().c_str(),
                absl::GetFlag(FLAGS_backward) ? "forward and backward" : "forward", 1e3 / steps);
    return PrintKernels(*step);
  }
  return AnswerCommands(values, side, [&] { return PeakBeyond(before); });
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(argc, argv, "Times a recurrent layer.", belfry::benchmarks::Run);
}
