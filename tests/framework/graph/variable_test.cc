#include "framework/graph/variable.h"

#include <functional>
#include <string>

#include "framework/device/device_set.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VariableTest : public testing::Test {
 protected:
  Variable Make(const Scope& scope, absl::string_view name, const Shape& shape = {2, 3},
                const VariableOptions& options = {}) {
    return GetVariable(scope, name, shape, ZerosInitializer(), options);
  }
  std::string Error() const { return std::string(graph_.status().message()); }

  Graph graph_{BuiltinOps()};
  const Scope root_{graph_};
};

TEST_F(VariableTest, IsNamedByTheVariableScopeAlone) {
  const Scope tower = root_.NameScope("tower_0");
  const Variable weights = Make(tower.VariableScope("conv1"), "weights");
  ASSERT_TRUE(weights.valid());
  EXPECT_EQ(weights.name(), "conv1/weights");
  EXPECT_EQ(weights.node().name(), "conv1/weights");
  EXPECT_EQ(Make(tower.NameScope("x").VariableScope("a").NameScope("y").VariableScope("b"), "w").name(), "a/b/w");
  EXPECT_EQ(Make(root_, "w").name(), "w");
}

TEST_F(VariableTest, AVariableScopeOpensANameScope) {
  const Scope first = root_.VariableScope("v"), second = root_.VariableScope("v");
  EXPECT_EQ(first.name(), "v/");
  EXPECT_EQ(second.name(), "v_1/");
  EXPECT_EQ(first.variable_path(), "v/");
  EXPECT_EQ(second.variable_path(), "v/");
  EXPECT_EQ(second.VariableScope("w").variable_path(), "v/w/");
}

TEST_F(VariableTest, HasShapeDTypeAndInitializer) {
  const Variable v = Make(root_, "v", {4}, {.dtype = DType::kInt64, .trainable = false});
  EXPECT_EQ(v.dtype(), DType::kInt64);
  EXPECT_EQ(v.shape(), Shape({4}));
  EXPECT_FALSE(v.trainable());
  EXPECT_EQ(v.replica(), 0);
  EXPECT_EQ(v.initializer().op().name, "Assign");
  EXPECT_EQ(v.initializer().input(0), v.value());
  EXPECT_EQ(v.initializer().input(1), v.def().initial_value);
  EXPECT_EQ(graph_.VariableOf(v.node()), v);
}

TEST_F(VariableTest, MayNotBeMadeTwice) {
  const int line = __LINE__ + 1;
  GetVariable(OpScope(root_.VariableScope("conv1")), "weights", {3}, ZerosInitializer());
  const int again = __LINE__ + 1;
  EXPECT_FALSE(GetVariable(OpScope(root_.VariableScope("conv1")), "weights", {3}, ZerosInitializer()).valid());
  EXPECT_EQ(graph_.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Error(), HasSubstr("Variable conv1/weights already exists, disallowed. Did you mean to reuse it"));
  EXPECT_THAT(Error(), ContainsRegex("Requested at .*variable_test.cc:" + std::to_string(again)));
  EXPECT_THAT(Error(), ContainsRegex("created at .*variable_test.cc:" + std::to_string(line)));
}

// Each in a graph of its own, since only the first error sticks.
TEST_F(VariableTest, ErrorsNameTheCallersLine) {
  const auto expect = [](int line, const std::function<void(const Scope&)>& call) {
    Graph graph(BuiltinOps());
    call(Scope(graph));
    EXPECT_THAT(graph.status().message(), HasSubstr("variable_test.cc:" + std::to_string(line)));
  };
  const Initializer zeros = ZerosInitializer();
  expect(__LINE__, [&](const Scope& root) { GetVariable(root, "", {}, zeros); });
  expect(__LINE__, [&](const Scope& root) { GetVariable(root, "v", {Shape::kUnknown}, zeros); });
  expect(__LINE__, [&](const Scope& root) { GetVariable(root, "v", {}, nullptr); });
  expect(__LINE__, [&](const Scope& root) { GetVariable(root.ReuseVariables(Reuse::kAlways), "v", {}, zeros); });
  expect(__LINE__, [&](const Scope& root) { GetVariable(root, "v v", {}, zeros); });
  expect(__LINE__, [&](const Scope& root) { SliceOfVariable(root, Variable(), 0, 1); });
  expect(__LINE__, [&](const Scope& root) { SliceOfVariable(root, GetVariable(root, "v", {2}, zeros), 0, 3); });
  expect(__LINE__, [&](const Scope& root) { root.VariableDevice("/gpu"); });
}

TEST_F(VariableTest, IsFoundAgain) {
  const Variable made = Make(root_.VariableScope("a"), "w");
  EXPECT_EQ(Make(root_.VariableScope("a").ReuseVariables(Reuse::kAlways), "w"), made);
  EXPECT_EQ(Make(root_.ReuseVariables(Reuse::kIfPresent).VariableScope("a"), "w"), made);
  EXPECT_TRUE(graph_.status().ok());
  EXPECT_THAT(graph_.variables(), ElementsAre(made));
}

TEST_F(VariableTest, IsMadeIfItIsNotPresent) {
  const Scope scope = root_.ReuseVariables(Reuse::kIfPresent);
  const Variable a = Make(scope, "a"), b = Make(scope, "b");
  EXPECT_EQ(Make(scope, "a"), a);
  EXPECT_THAT(graph_.variables(), ElementsAre(a, b));
}

TEST_F(VariableTest, ThatMustBeReusedMustExist) {
  EXPECT_FALSE(Make(root_.ReuseVariables(Reuse::kAlways).VariableScope("a"), "w").valid());
  EXPECT_EQ(graph_.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Error(), HasSubstr("Variable a/w does not exist"));
  EXPECT_THAT(Error(), HasSubstr("kIfPresent"));
}

TEST_F(VariableTest, IsNotSharedUnderAnotherShape) {
  Make(root_, "w", {2, 3});
  EXPECT_FALSE(Make(root_.ReuseVariables(Reuse::kAlways), "w", {3, 2}).valid());
  EXPECT_THAT(Error(), HasSubstr("Trying to share variable w, but specified float32 [3,2] and found float32 [2,3]."));
}

TEST_F(VariableTest, IsNotSharedUnderAnotherDType) {
  Make(root_, "w", {2});
  EXPECT_FALSE(Make(root_.ReuseVariables(Reuse::kIfPresent), "w", {2}, {.dtype = DType::kFloat64}).valid());
  EXPECT_THAT(Error(), HasSubstr("but specified float64 [2] and found float32 [2]."));
}

TEST_F(VariableTest, NeedsAKnownShape) {
  EXPECT_FALSE(Make(root_, "w", {Shape::kUnknown, 3}).valid());
  EXPECT_THAT(Error(), HasSubstr("Variable w needs a fully known shape, not [?,3]"));
}

TEST_F(VariableTest, NeedsAName) {
  EXPECT_FALSE(Make(root_, "", {2}).valid());
  EXPECT_THAT(Error(), HasSubstr("A variable needs a name"));
}

TEST_F(VariableTest, NeedsAnInitializer) {
  EXPECT_FALSE(GetVariable(root_, "v", {2}, nullptr).valid());
  EXPECT_THAT(Error(), HasSubstr("Variable v needs an initializer"));
}

TEST_F(VariableTest, HasReplicas) {
  std::vector<Variable> replicas;
  for (int i = 0; i < 3; ++i) {
    const Scope tower = root_.NameScope("tower_" + std::to_string(i)).Device("/cpu:" + std::to_string(i)).Replica(i);
    replicas.push_back(Make(tower.VariableScope("conv1"), "weights"));
    EXPECT_EQ(replicas[i].name(), "conv1/weights");
    EXPECT_EQ(replicas[i].replica(), i);
    EXPECT_EQ(replicas[i].node().requested_device().ToString(), "/device:CPU:" + std::to_string(i));
    EXPECT_EQ(graph_.FindVariable("conv1/weights", i), replicas[i]);
    EXPECT_EQ(Make(tower.VariableScope("conv1").ReuseVariables(Reuse::kAlways), "weights"), replicas[i]);
  }
  EXPECT_FALSE(graph_.FindVariable("conv1/weights", 3).valid());
  EXPECT_NE(replicas[0].node().name(), replicas[1].node().name());
  EXPECT_EQ(replicas[2].node().name(), "replica_2/conv1/weights");
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
}

TEST_F(VariableTest, StartsAlikeInAllReplicas) {
  const DeviceSet devices = DeviceSet::Open("cpu:2").value();
  std::vector<Output> values;
  for (int i = 0; i < 2; ++i) {
    const Scope tower = root_.NameScope("tower_" + std::to_string(i)).Device("/cpu:" + std::to_string(i)).Replica(i);
    values.push_back(GetVariable(tower, "a", {50}, NormalInitializer(1.0)));
    values.push_back(GetVariable(tower, "b", {50}, NormalInitializer(1.0)));
    values.push_back(GetVariable(tower, "c", {6, 4}, GlorotUniformInitializer()));
  }
  const Node* init = InitializeVariables(root_);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph_, devices));
  ASSERT_TRUE(session->RunTarget(init).ok());
  ASSERT_OK_AND_ASSIGN(auto result, session->Run(values));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(result[i].ToDoubles(), result[3 + i].ToDoubles());
  EXPECT_NE(result[0].ToDoubles(), result[1].ToDoubles());
  for (double value : result[2].ToDoubles()) EXPECT_LE(std::abs(value), std::sqrt(6.0 / 10));
}

TEST_F(VariableTest, ASlotLivesWithItsVariable) {
  const Variable v = Make(root_.Device("/cpu:1"), "v");
  const Variable slot = Make(root_.Device("/cpu:0"), "v/Momentum", {2, 3}, {.trainable = false, .slot_of = v});
  EXPECT_EQ(slot.def().slot_of, &v.def());
  EXPECT_THAT(slot.node().colocated_with(), ElementsAre(&v.node()));
  EXPECT_EQ(slot.node().requested_device(), DeviceName());
  EXPECT_THAT(slot.initializer().colocated_with(), ElementsAre(&slot.node()));
}

TEST_F(VariableTest, ATransientVariableNeedsNoInitializer) {
  const Variable v = GetVariable(root_, "v", {3}, nullptr, {.transient = true});
  ASSERT_TRUE(v.valid());
  EXPECT_EQ(v.def().initializer, nullptr);
  const Variable w = GetVariable(root_, "w", {3}, ZerosInitializer());
  EXPECT_THAT(InitializeVariables(root_)->control_inputs(), ElementsAre(&w.initializer()));
}

TEST_F(VariableTest, APartIsNoVariableOfTheGraph) {
  const Variable v = GetVariable(root_, "v", {4, 16}, ZerosInitializer());
  const Variable part = SliceOfVariable(root_, v, 16, 33);
  ASSERT_TRUE(part.valid());
  EXPECT_EQ(part.name(), "v");
  EXPECT_EQ(part.shape(), Shape({33}));
  EXPECT_EQ(part.def().begin, 16);
  EXPECT_EQ(graph_.variables().size(), 1u);
  const Variable slot = Make(root_, "v/Momentum", {33}, {.trainable = false, .slot_of = part});
  EXPECT_TRUE(slot.sharded());
  EXPECT_FALSE(v.sharded());
  EXPECT_EQ(graph_.variables().size(), 2u);
  EXPECT_FALSE(SliceOfVariable(root_, v, 32, 33).valid());
  EXPECT_THAT(Error(), HasSubstr("[32, 65) are not in the input's shape [4,16]"));
}

TEST_F(VariableTest, LivesOnTheVariableDevice) {
  const Scope scope = root_.VariableDevice("/cpu:0").Device("/gpu:1");
  const Variable v = Make(scope, "v");
  EXPECT_EQ(v.node().requested_device().ToString(), "/device:CPU:0");
  EXPECT_EQ(ops::Identity(scope, v).node->requested_device().ToString(), "/device:GPU:1");
}

TEST_F(VariableTest, WaitsForNothing) {
  const Output before = ops::Const(root_, 1.0f);
  const Variable v = Make(root_.ControlDependencies({before}), "v");
  EXPECT_TRUE(v.node().control_inputs().empty());
  EXPECT_TRUE(v.initializer().control_inputs().empty());
}

TEST_F(VariableTest, InitializeVariablesRunsAllThatThereAreNow) {
  const Variable a = Make(root_, "a"), b = Make(root_, "b");
  const Node* init = InitializeVariables(root_);
  Make(root_, "c");
  EXPECT_THAT(init->control_inputs(), ElementsAre(&a.initializer(), &b.initializer()));
}

TEST_F(VariableTest, OnlyAVariableCanBeUpdated) {
  const Output constant = ops::Const(root_, 1.0f);
  EXPECT_FALSE(root_.Add("AssignAdd", {constant, constant}).valid());
  EXPECT_THAT(Error(), HasSubstr("must be a variable, but is Const:0"));
}

}  // namespace
}  // namespace belfry
