// Devices, control inputs, colocation, and everything else that a Scope carries besides names.
#include "framework/graph/scope.h"

#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/state.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ScopeTest : public testing::Test {
 protected:
  // The device request of a node inside these device scopes, outermost first.
  std::string Nested(std::initializer_list<const char*> devices) {
    Scope scope = root_;
    for (const char* device : devices) scope = scope.Device(device);
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    return ops::Const(scope, 1.0f).node->requested_device().ToString();
  }
  Output Const(const Scope& scope, absl::string_view name) { return ops::Const(scope.Named(name), 1.0f); }

  Graph graph_{BuiltinOps()};
  const Scope root_{graph_};
};

std::vector<std::string> Controls(const Output& output) {
  std::vector<std::string> names;
  for (const Node* node : output.node->control_inputs()) names.push_back(node->name());
  return names;
}

TEST_F(ScopeTest, DevicesNestFieldByField) {
  EXPECT_EQ(Nested({}), "");
  EXPECT_EQ(Nested({"/device:GPU:0"}), "/device:GPU:0");
  EXPECT_EQ(Nested({"/device:GPU:0", "/job:worker"}), "/job:worker/device:GPU:0");
  EXPECT_EQ(Nested({"/device:GPU:0", "/job:worker", "/device:CPU:0"}), "/job:worker/device:CPU:0");
  EXPECT_EQ(Nested({"/device:GPU:0", "/job:worker", "/device:CPU:0", "/job:ps"}), "/job:ps/device:CPU:0");
  EXPECT_EQ(Nested({"/device:GPU:0", "/job:worker", "/device:CPU:0", "/job:ps", ""}), "/job:ps/device:CPU:0");
  EXPECT_EQ(Nested({"/job:worker/replica:2", "/job:worker/replica:3/task:0"}), "/job:worker/replica:3/task:0");
  EXPECT_EQ(Nested({"/job:worker/replica:2/device:CPU:1", "/job:worker/replica:2/device:GPU:2"}),
            "/job:worker/replica:2/device:GPU:2");
  EXPECT_EQ(Nested({"/device:CPU:*", "/device:CPU:5"}), "/device:CPU:5");
  EXPECT_EQ(Nested({"/device:GPU:7", "/device:GPU:*"}), "/device:GPU:7");
  EXPECT_EQ(Nested({"/gpu:1"}), "/device:GPU:1");
}

TEST_F(ScopeTest, NoDeviceForgetsThoseOutside) {
  const Scope scope = root_.Device("/job:worker/gpu:1").NoDevice();
  EXPECT_EQ(Const(scope, "a").node->requested_device(), DeviceName());
  EXPECT_EQ(Const(scope, "b").node->device_text(), "");
  EXPECT_EQ(Const(scope.Device("/cpu:0"), "c").node->requested_device().ToString(), "/device:CPU:0");
}

TEST_F(ScopeTest, DevicesPrintAsTheyWereWritten) {
  EXPECT_EQ(Const(root_.Device("/gpu:2"), "a").node->device_text(), "/gpu:2");
  EXPECT_EQ(Const(root_.Device("/job:w").Device("/gpu:2"), "b").node->device_text(), "/job:w/device:GPU:2");
}

TEST_F(ScopeTest, AMalformedDeviceNamesTheLine) {
  const int line = __LINE__ + 1;
  const Scope scope = root_.Device("/gpu:x");
  EXPECT_THAT(graph_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Malformed device specification '/gpu:x'")));
  EXPECT_THAT(graph_.status().message(), HasSubstr("scope_test.cc:" + std::to_string(line)));
  EXPECT_FALSE(ops::Const(scope, 1.0f).valid());
}

TEST_F(ScopeTest, ControlDependenciesAccumulate) {
  const Output a = Const(root_, "a"), b = Const(root_, "b"), c = Const(root_, "c");
  const Scope outer = root_.ControlDependencies({a});
  const Scope inner = outer.ControlDependencies({b, c});
  EXPECT_THAT(Controls(Const(outer, "x")), ElementsAre("a"));
  EXPECT_THAT(Controls(Const(inner, "y")), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Controls(Const(root_, "z")), IsEmpty());
}

TEST_F(ScopeTest, ControlDependenciesAreCleared) {
  const Output a = Const(root_, "a"), b = Const(root_, "b");
  const Scope scope = root_.ControlDependencies({a}).NoControlDependencies();
  EXPECT_THAT(Controls(Const(scope, "x")), IsEmpty());
  EXPECT_THAT(Controls(Const(scope.ControlDependencies({b}), "y")), ElementsAre("b"));
}

TEST_F(ScopeTest, AControlDependencyIsNotRepeated) {
  const Output a = Const(root_, "a"), b = Const(root_, "b");
  const Scope scope = root_.ControlDependencies({a, b, a}).ControlDependencies({b});
  EXPECT_THAT(Controls(Const(scope, "x")), ElementsAre("a", "b"));
  // A data input is not a control input too.
  EXPECT_THAT(Controls(ops::Neg(scope, a)), ElementsAre("b"));
  EXPECT_THAT(Controls(ops::Add(scope, a, b)), IsEmpty());
}

TEST_F(ScopeTest, ControlDependenciesTakeNodes) {
  const Output a = Const(root_, "a");
  const Node* group = ops::Group(root_, {a});
  EXPECT_THAT(Controls(Const(root_.ControlDependencies({group}), "x")), ElementsAre("NoOp"));
}

TEST_F(ScopeTest, BesideANode) {
  const Output before = Const(root_, "before");
  const Scope tower = root_.NameScope("tower_0").InTower(0).Device("/cpu:1");
  const Scope made = tower.NameScope("net").VariableScope("layer").ControlDependencies({before}).InPhase(
      Phase::kBackward, before.node);
  const Scope scope = Scope::Beside(*Const(made, "x").node);
  EXPECT_EQ(&scope.graph(), &graph_);
  EXPECT_EQ(scope.name(), "tower_0/net/layer/");
  EXPECT_EQ(scope.variable_path(), "");
  EXPECT_FALSE(scope.location().known());
  const Node& node = *Const(scope, "y").node;
  EXPECT_EQ(node.device_text(), "/cpu:1");
  EXPECT_EQ(node.tower_scope(), "tower_0/");
  EXPECT_EQ(node.phase(), Phase::kBackward);
  EXPECT_EQ(node.computed_for(), before.node);
  EXPECT_THAT(node.control_inputs(), IsEmpty());
  EXPECT_EQ(Scope::Beside(*before.node).name(), "");
  EXPECT_EQ(Const(scope.InTower(-1), "z").node->tower_scope(), "");
}

TEST_F(ScopeTest, OnlyIfIsForUpdatesAlone) {
  const Variable variable = GetVariable(root_, "v", {}, ZerosInitializer());
  const Output condition = ops::Const<bool>(root_, true), one = ops::Const(root_, 1.0f);
  const Scope scope = root_.OnlyIf(condition);
  const Output update = ops::AssignAdd(scope, variable, one);
  ASSERT_TRUE(update.valid()) << graph_.status();
  ASSERT_EQ(update.node->inputs().size(), 3u);
  EXPECT_EQ(update.node->inputs()[2], condition);
  EXPECT_EQ(ops::Add(scope, one, one).node->inputs().size(), 2u);
  EXPECT_EQ(ops::AssignAdd(root_, variable, one).node->inputs().size(), 2u);
  // A variable created there gets its value whatever the condition is.
  EXPECT_EQ(GetVariable(scope, "w", {}, ZerosInitializer()).initializer().inputs().size(), 2u);
}

TEST_F(ScopeTest, OnlyIfRefusesOpsThatKnowNoCondition) {
  OpRegistry registry;
  registry.Add(*BuiltinOps().Find("Variable"));
  registry.Add(*BuiltinOps().Find("Const"));
  OpDef op = *BuiltinOps().Find("AssignAdd");
  op.inputs.pop_back();
  registry.Add(op);
  Graph graph(registry);
  const Scope scope(graph);
  const Output variable = scope.Add("Variable", {}, {{"T", DType::kFloat32}, {"shape", Shape()}, {"name", "v"}});
  const Output one = ops::Const(scope, 1.0f);
  EXPECT_TRUE(scope.Add("AssignAdd", {variable, one}).valid()) << graph.status();
  EXPECT_FALSE(scope.OnlyIf(ops::Const<bool>(scope, true)).Add("AssignAdd", {variable, one}).valid());
  EXPECT_THAT(graph.status(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("AssignAdd")));
}

TEST_F(ScopeTest, PhaseAndTowerGoIntoNodes) {
  const Output plain = ops::Const(root_.NameScope("gradients").NameScope("tower_1"), 1.0f);
  EXPECT_EQ(plain.node->phase(), Phase::kForward);
  EXPECT_EQ(plain.node->tower(), -1);
  EXPECT_EQ(plain.node->computed_for(), nullptr);

  const Scope tower = root_.NameScope("a/replica").InTower(3);
  const Output inside = ops::Const(tower.NameScope("conv1"), 1.0f);
  EXPECT_EQ(inside.node->tower(), 3);
  EXPECT_EQ(inside.node->tower_scope(), "a/replica/");
  EXPECT_EQ(inside.node->name_in_tower(), "conv1/Const");
  EXPECT_EQ(ops::Const(root_, 1.0f).node->tower(), -1);
  EXPECT_EQ(plain.node->name_in_tower(), plain.node->name());

  const Output update = ops::Const(tower.InPhase(Phase::kUpdate, inside.node), 1.0f);
  EXPECT_EQ(update.node->phase(), Phase::kUpdate);
  EXPECT_EQ(update.node->computed_for(), inside.node);
}

TEST_F(ScopeTest, VariablesBelongToTheForwardPassWhereverTheyAreMade) {
  const Variable slot = GetVariable(root_.InPhase(Phase::kUpdate), "slot", {2}, UniformInitializer(0, 1));
  EXPECT_EQ(slot.node().phase(), Phase::kForward);
  EXPECT_EQ(slot.initializer().phase(), Phase::kForward);
  EXPECT_EQ(slot.def().initial_value.node->phase(), Phase::kForward);
}

TEST_F(ScopeTest, WhatTheFrameworkAddsIsFoundByItsRole) {
  OpRegistry registry;
  OpDef fill = *BuiltinOps().Find("Fill");
  fill.name = "MyFill";
  registry.Add(fill);
  EXPECT_EQ(registry.ForRole(OpRole::kFill), registry.Find("MyFill"));
  EXPECT_EQ(registry.ForRole(OpRole::kAddN), nullptr);
  Graph graph(registry);
  const Scope scope(graph);
  const Output zeros = ZerosInitializer()(scope, "zeros", DType::kFloat32, {2});
  ASSERT_TRUE(zeros.valid()) << graph.status();
  EXPECT_EQ(zeros.node->op().name, "MyFill");
  EXPECT_FALSE(UniformInitializer(0, 1)(scope, "draws", DType::kFloat32, {2}).valid());
  EXPECT_THAT(graph.status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("the role random_uniform")));
}

TEST_F(ScopeTest, ColocationReplacesDevices) {
  const Output a = Const(root_.Device("/cpu:0"), "a");
  const Scope scope = root_.Device("/gpu:1").ColocateWith(*a.node);
  const Output b = Const(scope, "b");
  EXPECT_EQ(b.node->requested_device(), DeviceName());
  EXPECT_THAT(b.node->colocated_with(), ElementsAre(a.node));
  const Output c = Const(scope.Device("/cpu:1"), "c");
  EXPECT_EQ(c.node->requested_device().ToString(), "/device:CPU:1");
  EXPECT_THAT(c.node->colocated_with(), IsEmpty());
}

TEST_F(ScopeTest, AFinalizedGraphTakesNothing) {
  Const(root_, "a");
  graph_.Finalize();
  EXPECT_FALSE(Const(root_, "b").valid());
  EXPECT_EQ(graph_.size(), 1);
  EXPECT_EQ(graph_.status().message(), "Graph is finalized and cannot be modified.");
}

TEST_F(ScopeTest, NodesCarryTheLineOfTheCaller) {
  const int line = __LINE__ + 1;
  const Output a = ops::Const(root_, 1.0f);
  EXPECT_THAT(std::string(a.node->location().file), HasSubstr("scope_test.cc"));
  EXPECT_EQ(a.node->location().line, line);
  const Output b = ops::Neg(root_.WithLocation({"model.cc", 12}), a);
  EXPECT_EQ(b.node->location().ToString(), "model.cc:12");
}

TEST_F(ScopeTest, GradientsCarryTheLineOfTheirForwardNode) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {});
  const int line = __LINE__ + 1;
  const Output y = ops::Square(root_, x);
  ASSERT_TRUE(Gradients(root_, {y}, {x}).ok());
  bool seen = false;
  for (int id = y.node->id() + 1; id < graph_.size(); ++id) {
    const Node& node = graph_.node(id);
    if (node.name().find("Square_grad/") == std::string::npos) continue;
    seen = true;
    EXPECT_EQ(node.location().line, line) << node.name();
    EXPECT_THAT(node.colocated_with(), ElementsAre(y.node)) << node.name();
  }
  EXPECT_TRUE(seen);
}

TEST_F(ScopeTest, RandomPathLeavesTheTowerOut) {
  const Output step = ops::Const(root_, int64_t{0}), first = ops::Const(root_, int64_t{4});
  EXPECT_THAT(root_.random_counters(), IsEmpty());
  const Scope tower = root_.NameScope("tower_3").RandomCounters(step, first);
  EXPECT_EQ(tower.random_path(), "");
  EXPECT_EQ(tower.NameScope("dropout").random_path(), "dropout/");
  EXPECT_THAT(tower.random_counters(), ElementsAre(step, first));
  EXPECT_THAT(tower.RandomCounters(step, Output()).random_counters(), ElementsAre(step));
  EXPECT_THAT(tower.RandomCounters(Output(), first).random_counters(), IsEmpty());
}

}  // namespace
}  // namespace belfry
