// S2: placement, with its log.
#include <sstream>

#include "absl/strings/str_cat.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Product {
  Output a, b, c;
  int line_of_b = 0;  // in this file
};

Product Build(const Scope& operands, const Scope& product) {
  Product p;
  p.a = ops::Const(operands.Named("a"), {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {2, 3});
  p.b = ops::Const(operands.Named("b"), {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {3, 2}), p.line_of_b = __LINE__;
  p.c = ops::MatMul(product, p.a, p.b);
  return p;
}

void ExpectProduct(Session& session, const Product& p) {
  ASSERT_OK_AND_ASSIGN(const auto result, session.Run({p.c}));
  EXPECT_EQ(result[0].shape(), Shape({2, 2}));
  EXPECT_EQ(result[0].ToDoubles(), (std::vector<double>{22, 28, 49, 64}));
}

TEST(ScenarioPlacement, LogOfOneDevice) {
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  Graph graph(BuiltinOps());
  const Product p = Build(Scope(graph), Scope(graph));
  std::ostringstream log;
  const auto session = Session::Create(graph, devices, {.log_device_placement = true, .placement_log = &log}).value();
  EXPECT_EQ(log.str(), absl::StrCat("Device mapping:\n"
                                    "/job:localhost/replica:0/task:0/cpu:0 -> ",
                                    devices.device(0).description(),
                                    "\n"
                                    "b: /job:localhost/replica:0/task:0/cpu:0\n"
                                    "a: /job:localhost/replica:0/task:0/cpu:0\n"
                                    "MatMul: /job:localhost/replica:0/task:0/cpu:0\n"));
  ExpectProduct(*session, p);
}

TEST(ScenarioPlacement, PinnedOperandsAndTheirProductElsewhere) {
  const DeviceSet devices = DeviceSet::Open("cpu:2").value();
  Graph graph(BuiltinOps());
  const Scope root(graph);
  const Product p = Build(root.Device("/cpu:1"), root);
  std::ostringstream log;
  const auto session = Session::Create(graph, devices, {.log_device_placement = true, .placement_log = &log}).value();
  EXPECT_THAT(log.str(), EndsWith("b: /job:localhost/replica:0/task:0/cpu:1\n"
                                  "a: /job:localhost/replica:0/task:0/cpu:1\n"
                                  "MatMul: /job:localhost/replica:0/task:0/cpu:0\n"));
  ExpectProduct(*session, p);
}

TEST(ScenarioPlacement, EverythingUnderOneDevice) {
  const DeviceSet devices = DeviceSet::Open("cpu:3").value();
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).Device("/cpu:2");
  const Product p = Build(scope, scope);
  const auto session = Session::Create(graph, devices).value();
  for (const Output& output : {p.a, p.b, p.c}) EXPECT_EQ((*session->DeviceOf(*output.node))->name().id, 2);
  ExpectProduct(*session, p);
}

TEST(ScenarioPlacement, ADeviceThatDoesNotExistIsAnError) {
  const DeviceSet devices = DeviceSet::Open("cpu:2").value();
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).Device("/gpu:2");
  const Product p = Build(scope, scope);
  EXPECT_THAT(
      Session::Create(graph, devices).status(),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          AllOf(StartsWith(
                    "Cannot assign a device to node 'b': Could not satisfy explicit device specification '/gpu:2'"),
                HasSubstr("/job:localhost/replica:0/task:0/cpu:0, /job:localhost/replica:0/task:0/cpu:1"),
                HasSubstr(absl::StrCat("scenarios/placement_test.cc:", p.line_of_b)),
                EndsWith("[[Node: b = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [3,2] values: 1 2 3...>, "
                         "_device=\"/gpu:2\"]()]]"))));
}

TEST(ScenarioPlacement, SoftPlacementRunsTheSameProgramAndSaysSo) {
  const DeviceSet devices = DeviceSet::Open("cpu:2").value();
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).Device("/gpu:2");
  const Product p = Build(scope, scope);
  std::ostringstream log;
  ASSERT_OK_AND_ASSIGN(
      const auto session,
      Session::Create(graph, devices,
                      {.allow_soft_placement = true, .log_device_placement = true, .placement_log = &log}));
  ExpectProduct(*session, p);
  EXPECT_THAT(log.str(), AllOf(HasSubstr("b: /job:localhost/replica:0/task:0/cpu:0\n"),
                               HasSubstr("not on '/gpu:2' as requested"), HasSubstr("there is no such device")));
}

}  // namespace
}  // namespace belfry
