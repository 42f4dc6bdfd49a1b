// S3: several devices by hand.
#include <sstream>

#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

TEST(ScenarioSeveralDevices, ProductsOnTwoDevicesAndTheirSum) {
  const DeviceSet devices = DeviceSet::Open("cpu:3").value();
  Graph graph(BuiltinOps());
  const Scope root(graph);
  std::vector<Output> c;
  for (const char* device : {"/cpu:1", "/cpu:2"}) {
    const Scope scope = root.Device(device);
    const Output a = ops::Const(scope, {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {2, 3});
    const Output b = ops::Const(scope, {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {3, 2});
    c.push_back(ops::MatMul(scope, a, b));
  }
  const Output sum = ops::AddN(root.Device("/cpu:0"), c);
  std::ostringstream log;
  ASSERT_OK_AND_ASSIGN(const auto session,
                       Session::Create(graph, devices, {.log_device_placement = true, .placement_log = &log}));
  ASSERT_OK_AND_ASSIGN(const auto result, session->Run({sum}));
  EXPECT_EQ(result[0].shape(), Shape({2, 2}));
  EXPECT_EQ(result[0].ToDoubles(), (std::vector<double>{44, 56, 98, 128}));
  EXPECT_THAT(log.str(), ::testing::EndsWith("Const_3: /job:localhost/replica:0/task:0/cpu:2\n"
                                             "Const_2: /job:localhost/replica:0/task:0/cpu:2\n"
                                             "MatMul_1: /job:localhost/replica:0/task:0/cpu:2\n"
                                             "Const_1: /job:localhost/replica:0/task:0/cpu:1\n"
                                             "Const: /job:localhost/replica:0/task:0/cpu:1\n"
                                             "MatMul: /job:localhost/replica:0/task:0/cpu:1\n"
                                             "AddN: /job:localhost/replica:0/task:0/cpu:0\n"));
}

}  // namespace
}  // namespace belfry
