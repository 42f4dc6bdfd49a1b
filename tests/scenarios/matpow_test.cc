// S4: A^n + B^n on one device and on two.
#include <random>

#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

Output MatPow(const Scope& scope, Output m, int n) {
  return n < 1 ? m : ops::MatMul(scope, m, MatPow(scope, m, n - 1));
}

std::vector<double> NaiveMatPow(const Tensor& m, int n) {
  const int64_t size = m.shape()[0];
  const std::vector<double> factor = m.ToDoubles();
  std::vector<double> power = factor;
  for (; n >= 1; --n) {
    std::vector<double> next(power.size(), 0);
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t k = 0; k < size; ++k) {
        for (int64_t j = 0; j < size; ++j) next[i * size + j] += factor[i * size + k] * power[k * size + j];
      }
    }
    power = std::move(next);
  }
  return power;
}

Tensor Uniform(int64_t size) {
  std::mt19937 random{TestSeed()};
  std::uniform_real_distribution<float> uniform(0, 1);
  Tensor m(DType::kFloat32, {size, size});
  for (int64_t i = 0; i < m.elements(); ++i) m.data<float>()[i] = uniform(random);
  return m;
}

TEST(ScenarioMatPow, OneDeviceAndTwoAgree) {
  constexpr int64_t kSize = 67;
  for (int n : {0, 1, 10}) {
    const DeviceSet devices = DeviceSet::Open("cpu:3").value();
    Graph graph(BuiltinOps());
    const Scope root(graph), one = root.Device("/cpu:1"), other = root.Device("/cpu:2"), cpu = root.Device("/cpu:0");
    const Output a = ops::Placeholder(root, DType::kFloat32, {-1, -1});
    const Output b = ops::Placeholder(root, DType::kFloat32, {-1, -1});
    const Output c1 = ops::AddN(cpu, {MatPow(one, a, n), MatPow(one, b, n)});
    const Output c2 = ops::AddN(cpu, {MatPow(one, a, n), MatPow(other, b, n)});
    const auto session = Session::Create(graph, devices).value();
    const Tensor x = Uniform(kSize), y = Uniform(kSize);
    const auto single = session->Run({{a, x}, {b, y}}, {c1}), multi = session->Run({{a, x}, {b, y}}, {c2});
    ASSERT_TRUE(single.ok() && multi.ok()) << single.status() << multi.status();
    EXPECT_EQ((*single)[0].span<float>(), (*multi)[0].span<float>()) << "n = " << n;
    const std::vector<double> power_x = NaiveMatPow(x, n), power_y = NaiveMatPow(y, n);
    for (int64_t i = 0; i < x.elements(); ++i) {
      const double expected = power_x[i] + power_y[i];
      ASSERT_NEAR((*multi)[0].data<float>()[i], expected, 1e-5 * expected) << "element " << i << ", n = " << n;
    }
  }
}

}  // namespace
}  // namespace belfry
