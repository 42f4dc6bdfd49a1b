// Computes A^n + B^n on one device and on two.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/random.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/session_flags.h"

ABSL_FLAG(int64_t, size, 10000, "Rows and columns of the matrices A and B.");
ABSL_FLAG(int, n, 10, "The power n of A^n + B^n.");
ABSL_FLAG(uint64_t, seed, 1, "Seed of the random matrices.");
ABSL_FLAG(int, runs, 5, "Measurements of each computation, taken in turn; their median is printed.");

namespace belfry::trainers {
namespace {

constexpr int64_t kMaxSize = 100'000, kMaxPower = 1'000, kMaxRuns = 10'000;

constexpr char kUsage[] =
    R"(Computes A^n + B^n for two random matrices: first both powers on one device, then A^n on one
device and B^n on another. Prints the median times with the fastest and slowest run, and the
speed-up of two devices over one, and checks that the results agree.

  matpow --devices=gpu:2               # two GPUs, 10,000 x 10,000 as in the classic example
  matpow --devices=cpu:2 --size=1000   # two halves of the CPU; the time is cubic in the size

Each step is compiled and run once before it is timed.
)";

Output MatPow(const Scope& scope, Output m, int n) {
  return n < 1 ? m : ops::MatMul(scope, m, MatPow(scope, m, n - 1));
}

// a^n on device_a, b^n on device_b, their sum on the CPU.
Output SumOfPowers(const Scope& scope, Output a, Output b, const DeviceName& device_a, const DeviceName& device_b) {
  const int n = absl::GetFlag(FLAGS_n);
  const Output powers[] = {MatPow(scope.Device(device_a), a, n), MatPow(scope.Device(device_b), b, n)};
  return ops::AddN(scope.Device("/cpu:0"), powers);
}

// One of the two computations, with the seconds of its runs.
struct Timed {
  std::unique_ptr<PreparedStep> step;
  std::vector<double> seconds;

  absl::Status Run(absl::Span<const Tensor> values) {
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(step->Run(values));
    RETURN_IF_ERROR(step->Wait());
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return absl::OkStatus();
  }
  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  }
  // "0.01231 s [0.0119 .. 0.013]".
  std::string Text() const {
    const auto [fastest, slowest] = std::minmax_element(seconds.begin(), seconds.end());
    const std::string spread = seconds.size() > 1 ? absl::StrFormat(" [%.4g .. %.4g]", *fastest, *slowest) : "";
    return absl::StrFormat("%.4g s%s", median(), spread);
  }
};

// The largest relative difference of two elements; NaN if one is NaN, or if only one is infinite.
double Difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (int64_t i = 0; i < a.elements(); ++i) {
    const double x = a.data<float>()[i], y = b.data<float>()[i];
    if (x == y) continue;
    const double difference = std::abs(x - y) / std::max(std::abs(x), std::abs(y));
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

absl::Status Run() {
  const int64_t size = absl::GetFlag(FLAGS_size);
  RETURN_IF_ERROR(CheckFlag("size", size, 1, kMaxSize));
  RETURN_IF_ERROR(CheckFlag("n", absl::GetFlag(FLAGS_n), 0, kMaxPower));
  const int runs = absl::GetFlag(FLAGS_runs);
  RETURN_IF_ERROR(CheckFlag("runs", runs, 1, kMaxRuns));
  ASSIGN_OR_RETURN(const DeviceSet devices, OpenDevices());
  const std::vector<int> towers = devices.TowerDevices();
  if (towers.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat("--devices=", absl::GetFlag(FLAGS_devices),
                                                   " opens one device; matpow needs two, as in --devices=cpu:2"));
  }
  ASSIGN_OR_RETURN(const SessionOptions options, SessionOptionsFromFlags(devices));
  const DeviceName& first = devices.device(towers[0]).name();
  const DeviceName& second = devices.device(towers[1]).name();

  Graph graph(BuiltinOps());
  graph.set_seed(absl::GetFlag(FLAGS_seed));
  const Scope root(graph);
  const Shape shape = {size, size};
  const Output random[] = {ops::RandomUniform(root.Device("/cpu:0"), shape),
                           ops::RandomUniform(root.Device("/cpu:0"), shape)};
  const Output a = ops::Placeholder(root, DType::kFloat32, shape);
  const Output b = ops::Placeholder(root, DType::kFloat32, shape);
  const Output c1 = SumOfPowers(root.NameScope("single"), a, b, first, first);
  const Output c2 = SumOfPowers(root.NameScope("multi"), a, b, first, second);

  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, options));
  ASSIGN_OR_RETURN(const std::vector<Tensor> values, session->Run(random));
  Timed single, multi;
  for (const auto& [timed, sum] : {std::pair(&single, c1), std::pair(&multi, c2)}) {
    ASSIGN_OR_RETURN(timed->step, session->Prepare({{a, shape}, {b, shape}}, {sum}));
    RETURN_IF_ERROR(timed->step->Run(values));
  }
  for (int i = 0; i < runs; ++i) {
    RETURN_IF_ERROR(single.Run(values));
    RETURN_IF_ERROR(multi.Run(values));
  }

  const std::string kind(devices.device(towers[0]).type());
  const std::string local = first.ToLocalString();
  absl::PrintF("A^%d + B^%d of %d x %d elements, median of %s [fastest .. slowest]\n", absl::GetFlag(FLAGS_n),
               absl::GetFlag(FLAGS_n), size, size, Counted(runs, "run"));
  absl::PrintF("Single %s computation time: %s on %s\n", kind, single.Text(), local);
  absl::PrintF("Multi %s computation time: %s on %s and %s\n", kind, multi.Text(), local, second.ToLocalString());
  absl::PrintF("Speed-up of two devices over one: %.2f\n", single.median() / multi.median());
  const double difference = Difference(single.step->fetched(0), multi.step->fetched(0));
  if (!(difference <= 1e-4)) {
    return absl::InternalError(absl::StrCat("The results differ by a factor of 1 + ", difference));
  }
  absl::PrintF("Results agree: largest relative difference %.2g\n", difference);
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  return RunProgram(argc, argv, kUsage, Run);
}
