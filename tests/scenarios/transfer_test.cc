// S8: a graph on several devices, and the transfers between them.
#include <set>

#include "absl/strings/str_cat.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;

TEST(ScenarioTransfer, EachTensorOncePerDestination) {
  const DeviceSet devices = DeviceSet::Open("cpu:3").value();
  Graph graph(BuiltinOps());
  const Scope root(graph);
  const Scope on[] = {root.Device("/cpu:0"), root.Device("/cpu:1"), root.Device("/cpu:2")};
  const Output fed = ops::Placeholder(on[0].Named("fed"), DType::kFloat32, {-1, 3});
  const Output x = ops::Square(on[0].Named("x"), fed);
  // Four uses of x on device 1 and two on device 2.
  const Output y = ops::Mul(on[1].Named("y"), ops::Neg(on[1], x), ops::Add(on[1], x, x));
  const Output z = ops::Mul(on[2].Named("z"), ops::Scale(on[2], x, 3), x);
  const Output unused = ops::Square(on[1], ops::Neg(on[0], x));
  const Output sum = ops::AddN(on[0].Named("sum"), {y, ops::Sub(on[1].Named("w"), x, y), z});
  ASSERT_TRUE(unused.valid());

  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph, devices));
  ASSERT_OK_AND_ASSIGN(const auto step, session->Prepare({{fed, {5, 3}}}, {sum}));
  const Plan& plan = step->plan();

  constexpr size_t kBytes = 5 * 3 * sizeof(float);
  std::multiset<std::string> moves;
  for (const TransferInfo& transfer : plan.Transfers()) {
    moves.insert(absl::StrCat(transfer.tensor, " ", transfer.from, "->", transfer.to));
    EXPECT_EQ(transfer.bytes, kBytes) << transfer.tensor;
  }
  EXPECT_THAT(moves, testing::UnorderedElementsAre("x:0 0->1", "x:0 0->2", "y:0 1->0", "w:0 1->0", "z:0 2->0"));

  std::set<int> parts;
  for (const StreamProgram& stream : plan.streams) {
    parts.insert(stream.device);
    for (const Instruction& instruction : stream.instructions) {
      if (instruction.kind != Instruction::Kind::kRun) continue;
      EXPECT_EQ(plan.program.nodes[instruction.index].device, stream.device);
    }
  }
  EXPECT_EQ(parts, (std::set<int>{0, 1, 2}));
  EXPECT_THAT(plan.ToText(devices), HasSubstr("x:0: CPU:0 -> CPU:1, 60 bytes"));

  Tensor value(DType::kFloat32, {5, 3});
  for (int i = 0; i < 15; ++i) value.data<float>()[i] = static_cast<float>(i - 7);
  ASSERT_TRUE(step->Run({value}).ok());
  for (int i = 0; i < 15; ++i) {
    const double square = (i - 7) * (i - 7);
    EXPECT_EQ(step->fetched(0).data<float>()[i], square + 3 * square * square) << i;
  }
}

TEST(ScenarioTransfer, OneDeviceMovesNothing) {
  const DeviceSet devices = DeviceSet::Open("cpu:2").value();
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).Device("/cpu:1");
  const Output x = ops::Placeholder(scope, DType::kFloat32, {4});
  const Output y = ops::Mul(scope, x, ops::Neg(scope, x));
  const auto session = Session::Create(graph, devices).value();
  const auto step = session->Prepare({{x, {4}}}, {y}).value();
  EXPECT_TRUE(step->plan().Transfers().empty());
  for (const StreamProgram& stream : step->plan().streams) EXPECT_EQ(stream.device, 1);
}

}  // namespace
}  // namespace belfry
