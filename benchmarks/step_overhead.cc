// What a step costs when its kernels cost next to nothing: linear regression on seven points, beside the same thirteen
// kernels called from an array.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "benchmarks/paired_runs.h"
#include "framework/graph/gradients.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/training.h"
#include "optim/apply.h"
#include "optim/descent.h"

namespace belfry::benchmarks {
namespace {

const std::vector<float> kX = {1, 23, 4, 5, 7, 5, 7}, kOut = {3, 5, 7, 9, 11, 13, 15};
constexpr int kPoints = 7;

// The step as a static schedule of small kernels behind function pointers, without a framework.
struct Schedule {
  float w = 0, b = 0, loss = 0, sum = 0, gw = 0, gb = 0;
  float wx[kPoints], y[kPoints], e[kPoints], e2[kPoints], g[kPoints], gx[kPoints];
  std::vector<void (*)(Schedule&)> kernels = {
      [](Schedule& s) {
        for (int i = 0; i < kPoints; ++i) s.wx[i] = s.w * kX[i];
      },
      [](Schedule& s) {
        for (int i = 0; i < kPoints; ++i) s.y[i] = s.wx[i] + s.b;
      },
      [](Schedule& s) {
        for (int i = 0; i < kPoints; ++i) s.e[i] = s.y[i] - kOut[i];
      },
      [](Schedule& s) {
        for (int i = 0; i < kPoints; ++i) s.e2[i] = s.e[i] * s.e[i];
      },
      [](Schedule& s) {
        s.sum = 0;
        for (int i = 0; i < kPoints; ++i) s.sum += s.e2[i];
      },
      [](Schedule& s) { s.loss = s.sum / kPoints; },
      [](Schedule& s) {
        for (int i = 0; i < kPoints; ++i) s.g[i] = 2 * s.e[i];
      },
      [](Schedule& s) {
        for (int i = 0; i < kPoints; ++i) s.g[i] /= kPoints;
      },
      [](Schedule& s) {
        for (int i = 0; i < kPoints; ++i) s.gx[i] = s.g[i] * kX[i];
      },
      [](Schedule& s) {
        s.gw = 0;
        for (int i = 0; i < kPoints; ++i) s.gw += s.gx[i];
      },
      [](Schedule& s) {
        s.gb = 0;
        for (int i = 0; i < kPoints; ++i) s.gb += s.g[i];
      },
      [](Schedule& s) { s.w -= 0.01f * s.gw; },
      [](Schedule& s) { s.b -= 0.01f * s.gb; },
  };
  void Step() {
    for (auto* kernel : kernels) kernel(*this);
  }
};

absl::Status Run() {
  auto devices = DeviceSet::Open("cpu:1");
  if (!devices.ok()) return devices.status();
  Graph graph;
  const Scope scope = Scope(graph).Device("/device:cpu:0");
  const Variable w = GetVariable(scope, "weight", {}, ZerosInitializer());
  const Variable b = GetVariable(scope, "bias", {}, ZerosInitializer());
  const Output x = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown});
  const Output out = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown});
  const Output error = ops::Sub(scope, ops::Add(scope, ops::Mul(scope, w, x), b), out);
  const Output loss = ops::Mean(scope, ops::Square(scope, error));
  const optim::GradientDescent optimizer({.learning_rate = 0.01});
  const Node* train = optim::ApplyGradients(scope, optimizer, optim::ComputeGradients(scope, loss, {w, b}));
  const Node* init = InitializeVariables(scope);
  auto session = Session::Create(graph, *devices);
  if (!session.ok()) return session.status();
  if (absl::Status status = (*session)->RunTarget(init); !status.ok()) return status;
  auto step = (*session)->Prepare({{x, {kPoints}}, {out, {kPoints}}}, {loss}, {train});
  if (!step.ok()) return step.status();
  const std::vector<Tensor> feeds = {Tensor::Of<float>(kX, {kPoints}), Tensor::Of<float>(kOut, {kPoints})};

  Schedule schedule;
  std::vector<Side> sides = {
      {"Belfry, prepared step",
       [&] {
         if (!(*step)->Run(feeds).ok()) std::abort();
       },
       1,
       {}},
      {"13 kernels behind function pointers", [&] { schedule.Step(); }, 1, {}},
  };
  PrintMachine();
  RunPaired(sides, 9, 0.5);
  PrintRates(sides, "steps/s");
  std::printf("%.3f us a step; a bare schedule %.3f us; losses %.5f and %.5f\n", 1e6 / Median(sides[0].rates),
              1e6 / Median(sides[1].rates), (*step)->fetched(0).scalar<float>(), schedule.loss);
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::benchmarks

int main() {
  const absl::Status status = belfry::benchmarks::Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}
