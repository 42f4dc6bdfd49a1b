#include "framework/graph/scope.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/state.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Summary, OfAConstant) {
  Graph graph(BuiltinOps());
  const Output b = ops::Const(Scope(graph).Named("b").Device("/gpu:2"), {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {3, 2});
  EXPECT_EQ(b.node->Summary(),
            "b = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [3,2] values: 1 2 3...>, _device=\"/gpu:2\"]()");
}

TEST(Summary, OfInputsAndControlInputs) {
  Graph graph(BuiltinOps());
  const Scope root(graph);
  const Output x = ops::Const(root.Named("x"), {1.f, 2.f});
  const std::vector<Output> parts = ops::Split(root.Named("parts"), x, 0, 2);
  const Node* init = ops::Group(root.Named("init"), {x});
  const Output sum = ops::Add(root.ControlDependencies({init}).Named("sum"), parts[0], parts[1]);
  EXPECT_EQ(sum.node->Summary(), "sum = Add[T=DT_FLOAT](parts, parts:1, ^init)");
  EXPECT_EQ(init->Summary(), "init = NoOp[](^x)");
}

TEST(Summary, OfEveryKindOfAttribute) {
  EXPECT_EQ(AttrToString(true), "true");
  EXPECT_EQ(AttrToString(int64_t{-3}), "-3");
  EXPECT_EQ(AttrToString(0.5), "0.5");
  EXPECT_EQ(AttrToString(std::string("a\"b\n")), "\"a\\\"b\\n\"");
  EXPECT_EQ(AttrToString(std::string(80, 'x') + "end"), "\"xxxxxxxxxx...xxxxxxxend\"");
  EXPECT_EQ(AttrToString(DType::kInt64), "DT_INT64");
  EXPECT_EQ(AttrToString(Shape({3, Shape::kUnknown})), "[3,?]");
  EXPECT_EQ(AttrToString(std::vector<int64_t>{1, 2, 2, 1}), "[1, 2, 2, 1]");
  EXPECT_EQ(AttrToString(std::vector<int64_t>{}), "[]");
  EXPECT_EQ(AttrTypeName(std::vector<int64_t>{}), "list(int)");
  EXPECT_EQ(AttrTypeName(Tensor()), "tensor");
}

TEST(GraphToText, HasALineForEachNode) {
  Graph graph(BuiltinOps());
  const Scope root(graph);
  const Output a = ops::Placeholder(root.Named("a"), DType::kFloat32, {Shape::kUnknown});
  ops::Neg(root.Named("b"), a);
  const std::string text = GraphToText(graph);
  EXPECT_THAT(text, HasSubstr("a = Placeholder["));
  EXPECT_THAT(text, HasSubstr("\nb = Neg[T=DT_FLOAT](a)\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(GraphToText(Graph(BuiltinOps())), "");
}

TEST(GraphToDot, NestsScopesAndDrawsEdges) {
  Graph graph(BuiltinOps());
  const Scope root(graph);
  const Output a = ops::Placeholder(root.Device("/cpu:0").Named("a"), DType::kFloat32, {Shape::kUnknown, 3});
  const Scope conv = root.NameScope("tower_0").NameScope("conv1");
  const Output b = ops::Neg(conv.Named("b"), a);
  ops::Group(root.Named("done"), {b});
  const std::string dot = GraphToDot(graph);
  EXPECT_THAT(dot, HasSubstr("digraph"));
  EXPECT_THAT(dot, HasSubstr("subgraph \"cluster_tower_0/\" { label=\"tower_0/\";\n"
                             "subgraph \"cluster_tower_0/conv1/\" { label=\"tower_0/conv1/\";\n"
                             "\"tower_0/conv1/b\" [label="));
  EXPECT_THAT(dot, HasSubstr("\"a\" -> \"tower_0/conv1/b\" [label=\"[?,3]\"];"));
  EXPECT_THAT(dot, HasSubstr("\"tower_0/conv1/b\" -> \"done\" [style=dashed];"));
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '{'), std::count(dot.begin(), dot.end(), '}'));
  EXPECT_THAT(GraphToDot(Graph(BuiltinOps())), Not(HasSubstr("->")));
}

}  // namespace
}  // namespace belfry
