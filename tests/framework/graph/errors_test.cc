// Checking a node against its op's definition when it is added; errors name the node and the user's line.
#include "absl/strings/str_cat.h"
#include "framework/graph/scope.h"
#include "framework/graph/variable.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ErrorsTest : public testing::Test {
 protected:
  ErrorsTest() {
    registry_.Add({.name = "Picky",
                   .inputs = {{.name = "x"}, {.name = "count", .type = "int32"}, {.name = "rest", .list = true}},
                   .outputs = {{.name = "y"}},
                   .types = {{"T", kWideFloatTypes}, {"U", kIndexTypes}},
                   .attrs = {{"rate", 0.5}, {"axis", int64_t{0}, true}},
                   .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
                     if (args.inputs[0].rank() != 1) return absl::InvalidArgumentError("x must be a vector");
                     return std::vector<Shape>{args.inputs[0]};
                   }});
  }
  std::string Error(std::vector<Output> inputs, Attrs attrs) {
    const Scope scope = Scope(graph_).NameScope("layer").Named("node").WithLocation({"model.cc", 7});
    EXPECT_EQ(scope.AddNode("Picky", std::move(inputs), std::move(attrs)), nullptr);
    const std::string message(graph_.status().message());
    EXPECT_THAT(message, HasSubstr("Cannot add node 'layer/node' (op Picky): "));
    EXPECT_THAT(message, HasSubstr(" (model.cc:7)"));
    return message;
  }
  static Attrs Good() { return {{"axis", int64_t{1}}, {"U", DType::kInt64}}; }

  OpRegistry registry_ = BuiltinOps();
  Graph graph_{registry_};
  const Scope root_{graph_};
  const Output x_ = ops::Const(root_, {1.f, 2.f});
  const Output n_ = ops::Const(root_, 1);
};

TEST_F(ErrorsTest, NothingIsWrong) {
  const Node* node = root_.AddNode("Picky", {x_, n_, x_, x_}, Good());
  ASSERT_NE(node, nullptr) << graph_.status();
  EXPECT_EQ(node->attrs().Float("rate"), 0.5);
  EXPECT_EQ(node->attrs().Int("axis"), 1);
  EXPECT_EQ(node->attrs().Type("T"), DType::kFloat32);
  EXPECT_EQ(node->attrs().Type("U"), DType::kInt64);
}

TEST_F(ErrorsTest, UnknownAttribute) {
  Attrs attrs = Good();
  attrs.Set("ratio", 0.5);
  EXPECT_THAT(Error({x_, n_}, attrs), HasSubstr("has no attribute 'ratio'"));
}

TEST_F(ErrorsTest, MissingAttribute) {
  EXPECT_THAT(Error({x_, n_}, {{"U", DType::kInt64}}), HasSubstr("attribute 'axis' is missing"));
}

TEST_F(ErrorsTest, MissingType) {
  EXPECT_THAT(Error({x_, n_}, {{"axis", int64_t{1}}}), HasSubstr("attribute 'U' (a dtype) is missing"));
}

TEST_F(ErrorsTest, AttributeOfAnotherType) {
  Attrs attrs = Good();
  attrs.Set("axis", 1.0);
  EXPECT_THAT(Error({x_, n_}, attrs), HasSubstr("attribute 'axis' must be of type int, but is float"));
}

TEST_F(ErrorsTest, TypeAttributeOfAnotherType) {
  Attrs attrs = Good();
  attrs.Set("T", std::string("float32"));
  EXPECT_THAT(Error({x_, n_}, attrs), HasSubstr("attribute 'T' must be of type type, but is string"));
}

TEST_F(ErrorsTest, TypeThatIsNotAllowed) {
  Attrs attrs = Good();
  attrs.Set("U", DType::kFloat32);
  EXPECT_THAT(Error({x_, n_}, attrs), HasSubstr("does not support float32 for U, only int32, int64"));
}

TEST_F(ErrorsTest, InputThatIsNotAllowed) {
  EXPECT_THAT(Error({ops::Const(root_, {1, 2}), n_}, Good()),
              HasSubstr("does not support int32 for 'x' and 'rest', only float32, float64"));
}

TEST_F(ErrorsTest, InputOfAFixedType) {
  EXPECT_THAT(Error({x_, x_}, Good()), HasSubstr("input 1 ('count') must be int32, but is float32"));
}

TEST_F(ErrorsTest, InputsThatDisagree) {
  EXPECT_THAT(Error({x_, n_, x_, ops::Const(root_, {1.0})}, Good()),
              HasSubstr("input 3 ('rest') is float64, but T is already float32; cast one of them"));
}

TEST_F(ErrorsTest, TypeAttributeThatContradictsTheInputs) {
  Attrs attrs = Good();
  attrs.Set("T", DType::kFloat64);
  EXPECT_THAT(Error({x_, n_}, attrs), HasSubstr("input 0 ('x') is float32, but T is already float64"));
}

TEST_F(ErrorsTest, TooFewInputs) {
  EXPECT_THAT(Error({x_}, Good()), HasSubstr("needs at least 2 inputs, but was given 1"));
}

TEST_F(ErrorsTest, WhatTheShapeRuleSays) { EXPECT_THAT(Error({n_, n_}, Good()), HasSubstr("int32 for 'x'")); }

TEST_F(ErrorsTest, WhatTheShapeRuleSaysOfRanks) {
  EXPECT_THAT(Error({ops::Const(root_, 1.0f), n_}, Good()), HasSubstr("x must be a vector"));
}

TEST_F(ErrorsTest, AnOutputThatDoesNotExist) {
  EXPECT_THAT(Error({Output{x_.node, 1}, n_}, Good()),
              HasSubstr("input Const:1 does not exist: its node has 1 output"));
}

TEST_F(ErrorsTest, AnInputOfAnotherGraph) {
  Graph other(BuiltinOps());
  EXPECT_THAT(Error({ops::Const(Scope(other), {1.f}), n_}, Good()), HasSubstr("an input belongs to another graph"));
}

TEST_F(ErrorsTest, AControlInputOfAnotherGraph) {
  Graph other(BuiltinOps());
  const Output foreign = ops::Const(Scope(other), 1.f);
  EXPECT_FALSE(ops::Const(root_.ControlDependencies({foreign}), 1.f).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("a control input belongs to another graph"));
}

TEST_F(ErrorsTest, AControlInputThatWasNeverMade) {
  for (bool node : {false, true}) {
    Graph graph(BuiltinOps());
    const Scope scope = Scope(graph).NameScope("update");
    const Output one = ops::Const(scope, 1.f);
    const int line = __LINE__ + 2;
    const Scope after =
        node ? scope.ControlDependencies({one.node, nullptr}) : scope.ControlDependencies({one, Output()});
    EXPECT_FALSE(ops::Const(after, 1.f).valid());
    EXPECT_THAT(graph.status().message(),
                AllOf(HasSubstr("A control dependency in scope 'update/' is an invalid Output"),
                      HasSubstr(absl::StrCat("errors_test.cc:", line))));
  }
}

TEST_F(ErrorsTest, ColocationWithAnotherGraph) {
  Graph other(BuiltinOps());
  const Output foreign = ops::Const(Scope(other), 1.f);
  EXPECT_FALSE(ops::Const(root_.ColocateWith(*foreign.node), 1.f).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("belongs to another graph"));
}

TEST_F(ErrorsTest, AnOpThatDoesNotExist) {
  EXPECT_EQ(root_.AddNode("Quux", {}), nullptr);
  EXPECT_THAT(graph_.status(), StatusIs(absl::StatusCode::kNotFound,
                                        HasSubstr("Cannot add node 'Quux' (op Quux): the graph's registry has no op")));
}

TEST_F(ErrorsTest, BuildersNameTheLineOfTheirCaller) {
  const Output a = ops::Const(root_, {1.f, 2.f, 3.f}), b = ops::Const(root_, {1.f, 2.f});
  const int line = __LINE__ + 1;
  const Output sum = ops::Add(root_, a, b);
  EXPECT_FALSE(sum.valid());
  const std::string message(graph_.status().message());
  EXPECT_THAT(message, HasSubstr("Cannot add node 'Add' (op Add): "));
  EXPECT_THAT(message, HasSubstr("[3]"));
  EXPECT_THAT(message, HasSubstr("[2]"));
  EXPECT_THAT(message, HasSubstr("errors_test.cc:" + std::to_string(line)));
}

TEST_F(ErrorsTest, TheFirstOneSticks) {
  ops::Add(root_, ops::Const(root_, {1.f, 2.f, 3.f}), x_);
  const absl::Status first = graph_.status();
  const int size = graph_.size();
  EXPECT_FALSE(ops::Const(root_, 1.f).valid());
  EXPECT_EQ(root_.AddNode("Quux", {}), nullptr);
  EXPECT_TRUE(root_.AddAll("Quux", {}).empty());
  EXPECT_EQ(graph_.status(), first);
  EXPECT_EQ(graph_.size(), size);
}

TEST_F(ErrorsTest, AnInputThatWasNeverMade) {
  const int line = __LINE__ + 1;
  EXPECT_FALSE(ops::Add(root_.NameScope("layer"), x_, Output()).valid());
  const std::string message(graph_.status().message());
  EXPECT_THAT(message, HasSubstr("op Add in scope 'layer/'"));
  EXPECT_THAT(message, HasSubstr("one of its inputs is an invalid Output"));
  EXPECT_THAT(message, HasSubstr("errors_test.cc:" + std::to_string(line)));
}

TEST_F(ErrorsTest, AFailedNodeTakesNoName) {
  Graph graph(BuiltinOps());
  EXPECT_FALSE(graph.AddNode({.op = "Quux", .name = "x"}).ok());
  ASSERT_OK_AND_ASSIGN(const auto node, graph.AddNode({.op = "NoOp", .name = "x"}));
  EXPECT_EQ(node->name(), "x");
}

TEST_F(ErrorsTest, UnknownExtentsFitEachOther) {
  const Output batch = ops::Placeholder(root_, DType::kFloat32, {Shape::kUnknown, 3});
  const Output sum = ops::Add(root_, batch, ops::Placeholder(root_, DType::kFloat32, {4, 3}));
  ASSERT_TRUE(sum.valid()) << graph_.status();
  EXPECT_EQ(sum.shape().rank(), 2);
  EXPECT_EQ(sum.shape()[1], 3);
}

TEST_F(ErrorsTest, NullControlInput) {
  const Scope scope = Scope(graph_).NameScope("layer").Named("node").WithLocation({"model.cc", 7});
  NodeRequest request{.op = "NoOp", .name = "n"};
  request.control_inputs.push_back(nullptr);
  EXPECT_THAT(graph_.AddNode(request).status().message(), HasSubstr("a control input is null"));
}

TEST_F(ErrorsTest, NegativeExtent) {
  EXPECT_FALSE(ops::Placeholder(root_, DType::kFloat32, {2, -3}).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("attribute 'shape' has a negative extent"));
}

TEST_F(ErrorsTest, BindingWhatDoesNotFit) {
  const auto error = [](const auto& bind) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output later = ops::Placeholder(scope, DType::kBool, {}), yes = ops::Const<bool>(scope, true);
    bind(graph, later, yes, ops::Const(scope, 1.0f));
    return std::string(graph.status().message());
  };
  EXPECT_EQ(error([](Graph& graph, Output later, Output yes, Output) { graph.Bind(later, yes); }), "");
  EXPECT_EQ(error([](Graph& graph, Output later, Output yes, Output) {
              graph.Bind(later, yes);
              graph.Bind(later, yes);
            }),
            "Cannot bind Placeholder:0 to Const:0: it is bound already");
  const auto unfit = HasSubstr("expected a placeholder, and a value of its dtype and shape");
  EXPECT_THAT(error([](Graph& graph, Output, Output yes, Output) { graph.Bind(yes, yes); }), unfit);
  EXPECT_THAT(error([](Graph& graph, Output later, Output, Output) { graph.Bind(later, later); }), unfit);
  EXPECT_THAT(error([](Graph& graph, Output later, Output, Output) { graph.Bind(later, Output()); }), unfit);
  EXPECT_THAT(error([](Graph& graph, Output later, Output, Output number) { graph.Bind(later, number); }), unfit);
}

// A model may go on to use the results of a failed builder; the first error must stay visible.
TEST_F(ErrorsTest, ResultsAfterAnErrorCanBeUsed) {
  const Output bad = ops::MatMul(root_, ops::Const(root_, {1.f, 2.f}), x_);
  EXPECT_FALSE(bad.valid());
  const std::string first(graph_.status().message());
  EXPECT_THAT(first, HasSubstr("MatMul"));
  EXPECT_EQ(bad.shape().rank(), 0);
  EXPECT_EQ(bad.shape()[3], Shape::kUnknown);
  EXPECT_EQ(bad.dtype(), DType::kFloat32);
  EXPECT_EQ(bad.name(), "(invalid)");
  EXPECT_FALSE(ops::Reshape(root_, bad, {bad.shape()[0], bad.shape()[1] - 7}).valid());
  const std::vector<Output> parts = ops::Split(root_, bad, 0, 3), others = ops::Split(root_, bad, 0, {1, 2});
  ASSERT_EQ(parts.size(), 3u);
  ASSERT_EQ(others.size(), 2u);
  EXPECT_FALSE(parts[2].valid());
  ASSERT_EQ(ops::Unstack(root_, bad, 0, 4).size(), 4u);
  const Variable variable = GetVariable(root_, "v", {bad.shape()[1], 3}, ZerosInitializer());
  EXPECT_FALSE(variable.valid());
  EXPECT_FALSE(variable.shape().valid());
  EXPECT_EQ(variable.name(), "(invalid)");
  EXPECT_EQ(variable.dtype(), DType::kFloat32);
  EXPECT_EQ(variable.replica(), 0);
  EXPECT_FALSE(variable.trainable());
  EXPECT_EQ(graph_.status().message(), first);
}

}  // namespace
}  // namespace belfry
