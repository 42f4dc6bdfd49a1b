// Belfry's side of the comparison of attention with PyTorch (attention.py): one layer of self-attention, causal, of
// tensors that a formula gives both sides. Without --serve it prints its own speed.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/main.h"
#include "benchmarks/memory_use.h"
#include "benchmarks/serve.h"
#include "framework/base/status.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/attention.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/state.h"

ABSL_FLAG(int64_t, batch_size, 8, "Sequences.");
ABSL_FLAG(int64_t, length, 256, "Positions of a sequence.");
ABSL_FLAG(int64_t, heads, 6, "Heads of queries.");
ABSL_FLAG(int64_t, kv_heads, 6, "Heads of keys and values.");
ABSL_FLAG(int64_t, width, 64, "Elements of a head.");
ABSL_FLAG(bool, causal, true, "Hide later positions.");
ABSL_FLAG(bool, backward, false, "Compute gradients, too.");
ABSL_FLAG(std::string, dtype, "float32", "float32 or bfloat16.");
ABSL_FLAG(int, threads, 1, "Number of threads.");
ABSL_FLAG(bool, serve, false, "Speak the protocol of benchmarks/peers/README.md.");

namespace belfry::benchmarks {
namespace {

// Numbers from -1 to 1 that attention.py computes as well.
Tensor Numbers(const Shape& shape, uint32_t seed) {
  Tensor x(DType::kFloat32, shape);
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto bits = static_cast<uint32_t>(i) * 2654435761u + seed;
    x.data<float>()[i] = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f;
  }
  return x;
}

double RootMeanSquare(const Tensor& x) {
  double squares = 0;
  for (const double value : x.ToDoubles()) squares += value * value;
  return std::sqrt(squares / static_cast<double>(x.elements()));
}

absl::Status Run() {
  ASSIGN_OR_RETURN(const MemoryUse before, ReadMemoryUse());
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:1", {.cpu_threads = absl::GetFlag(FLAGS_threads)}));
  ASSIGN_OR_RETURN(const DType dtype, ParseDType(absl::GetFlag(FLAGS_dtype)));
  const int64_t heads = absl::GetFlag(FLAGS_heads), kv_heads = absl::GetFlag(FLAGS_kv_heads);
  const Shape y_shape = {absl::GetFlag(FLAGS_batch_size), absl::GetFlag(FLAGS_length), heads,
                         absl::GetFlag(FLAGS_width)};
  Shape qkv_shape = y_shape;
  qkv_shape.set_dim(2, heads + 2 * kv_heads);

  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Variable qkv = GetVariable(scope, "qkv", qkv_shape, ZerosInitializer(), {.dtype = dtype});
  const Variable dy = GetVariable(scope, "dy", y_shape, ZerosInitializer(), {.dtype = dtype});
  const Output qkv_in = ops::Placeholder(scope, DType::kFloat32, qkv_shape);
  const Output dy_in = ops::Placeholder(scope, DType::kFloat32, y_shape);
  const Output set_qkv = ops::Assign(scope, qkv, ops::Cast(scope, qkv_in, dtype));
  const Output set_dy = ops::Assign(scope, dy, ops::Cast(scope, dy_in, dtype));
  Output result = ops::SelfAttention(scope, qkv, kv_heads, {.causal = absl::GetFlag(FLAGS_causal)});
  std::vector<Output> compared = {result};
  if (absl::GetFlag(FLAGS_backward)) {
    ASSIGN_OR_RETURN(const std::vector<Output> gradients, Gradients(scope, {result}, {qkv}, {.grad_ys = {dy}}));
    result = gradients[0];
    compared.push_back(result);
  }
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, {.plan_cache_bytes = 0}));
  RETURN_IF_ERROR(
      session->Run({{qkv_in, Numbers(qkv_shape, 1)}, {dy_in, Numbers(y_shape, 2)}}, {}, {set_qkv.node, set_dy.node})
          .status());
  std::vector<double> values;
  for (const Output& each : compared) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> value, session->Run({ops::Cast(scope, each, DType::kFloat32)}));
    values.push_back(RootMeanSquare(value[0]));
  }
  ASSIGN_OR_RETURN(const auto step, session->Prepare({}, {}, {result.node}));
  const Side side{.name = "Belfry", .step = [&] { return step->Run(); }, .finish = [&] { return step->Wait(); }};
  RETURN_IF_ERROR(Rate(side.step, 0.2, side.finish).status());
  ForgetPeak().IgnoreError();
  if (!absl::GetFlag(FLAGS_serve)) {
    ASSIGN_OR_RETURN(const double steps, Rate(side.step, 1, side.finish));
    std::printf("attention %s, %s: %.3f ms\n", y_shape.ToString().c_str(),
                absl::GetFlag(FLAGS_backward) ? "forward and backward" : "forward", 1e3 / steps);
    return absl::OkStatus();
  }
  return AnswerCommands(values, side, [&] { return PeakBeyond(before); });
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(argc, argv, "Times causal self-attention.", belfry::benchmarks::Run);
}
