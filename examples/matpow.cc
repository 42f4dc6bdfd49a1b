// Computes A^n + B^n for two random matrices on one device, then A^n on one and B^n on another, and compares.
//   matpow [DEVICES [SIZE]]   # cpu:2 and 1,000; the classic example is: matpow gpu:2 10000
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "belfry.h"

using namespace belfry;

constexpr int kPower = 10, kRuns = 5;

Output MatPow(const Scope& scope, Output m, int n) {
  return n < 1 ? m : ops::MatMul(scope, m, MatPow(scope, m, n - 1));
}

// a^n on device_a, b^n on device_b, their sum on the CPU.
Output SumOfPowers(const Scope& scope, Output a, Output b, const DeviceName& device_a, const DeviceName& device_b) {
  const Output powers[] = {MatPow(scope.Device(device_a), a, kPower), MatPow(scope.Device(device_b), b, kPower)};
  return ops::AddN(scope.Device("/cpu:0"), powers);
}

// The median of the seconds of a run. The step is compiled, and has run once.
absl::StatusOr<double> MedianSeconds(PreparedStep& step, const std::vector<Tensor>& values) {
  std::vector<double> seconds;
  for (int i = 0; i < kRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(step.Run(values));
    RETURN_IF_ERROR(step.Wait());
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

absl::Status Run(const char* spec, int64_t size) {
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open(spec));
  const std::vector<int> towers = devices.TowerDevices();
  if (towers.size() < 2 || size < 1)
    return absl::InvalidArgumentError("usage: matpow [cpu:2 [SIZE]], with two devices");
  const DeviceName& first = devices.device(towers[0]).name();
  const DeviceName& second = devices.device(towers[1]).name();

  Graph graph(BuiltinOps());
  const Scope root(graph);
  const Shape shape = {size, size};
  const Output random[] = {ops::RandomUniform(root.Device("/cpu:0"), shape),
                           ops::RandomUniform(root.Device("/cpu:0"), shape)};
  const Output a = ops::Placeholder(root, DType::kFloat32, shape), b = ops::Placeholder(root, DType::kFloat32, shape);
  const Output c1 = SumOfPowers(root.NameScope("single"), a, b, first, first);
  const Output c2 = SumOfPowers(root.NameScope("multi"), a, b, first, second);

  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
  ASSIGN_OR_RETURN(const std::vector<Tensor> values, session->Run(random));
  ASSIGN_OR_RETURN(const auto single, session->Prepare({{a, shape}, {b, shape}}, {c1}));
  ASSIGN_OR_RETURN(const auto multi, session->Prepare({{a, shape}, {b, shape}}, {c2}));
  RETURN_IF_ERROR(single->Run(values));
  RETURN_IF_ERROR(multi->Run(values));
  ASSIGN_OR_RETURN(const double one, MedianSeconds(*single, values));
  ASSIGN_OR_RETURN(const double two, MedianSeconds(*multi, values));
  const std::string type(devices.device(towers[0]).type());
  std::printf("Single %s computation time: %.4g s\n", type.c_str(), one);
  std::printf("Multi %s computation time: %.4g s\nSpeed-up of two devices over one: %.2f\n", type.c_str(), two,
              one / two);

  const auto x = single->fetched(0).span<float>(), y = multi->fetched(0).span<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    if (!(std::abs(x[i] - y[i]) <= 1e-4 * std::abs(x[i]))) return absl::InternalError("The results differ.");
  }
  std::printf("Results agree.\n");
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  const absl::Status status = Run(argc > 1 ? argv[1] : "cpu:2", argc > 2 ? std::atoll(argv[2]) : 1'000);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
