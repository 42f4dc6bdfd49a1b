// Graph::AddNode given every field of a request wrong: an error with the node, the user's line and the reason.
#include <functional>
#include <memory>
#include <string>

#include "framework/graph/scope.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class NodeRequestTest : public testing::Test {
 protected:
  // A request with a value in each field. The bindings do not compile once a field is added, which then needs a case
  // in this file.
  NodeRequest Good() const {
    NodeRequest request;
    auto& [op, name, inputs, control_inputs, attrs, facts, location] = request;
    op = "Cast";
    name = "tower_0/c";
    inputs = {x_};
    control_inputs = {x_.node};
    attrs = {{"DstT", DType::kFloat64}};
    facts = std::make_shared<const NodeFacts>(GoodFacts());
    location = {"model.cc", 7};
    return request;
  }
  NodeFacts GoodFacts() const {
    NodeFacts facts;
    auto& [device, device_text, colocated_with, phase, computed_for, tower, tower_scope] = facts;
    device = DeviceName::Parse("/gpu:1").value();
    device_text = "/gpu:1";
    colocated_with = {x_.node};
    phase = Phase::kBackward;
    computed_for = x_.node;
    tower = 0;
    tower_scope = "tower_0/";
    return facts;
  }
  std::string Error(const std::function<void(NodeRequest&, NodeFacts&)>& spoil) {
    NodeRequest request = Good();
    NodeFacts facts = GoodFacts();
    spoil(request, facts);
    if (request.facts != nullptr) request.facts = std::make_shared<const NodeFacts>(facts);
    const int size = graph_.size();
    const absl::StatusOr<const Node*> node = graph_.AddNode(std::move(request));
    EXPECT_EQ(graph_.size(), size);
    return node.ok() ? "" : std::string(node.status().message());
  }

  Graph graph_{BuiltinOps()}, other_{BuiltinOps()};
  const Output x_ = ops::Const(Scope(graph_), {1.f, 2.f});
  const Output foreign_ = ops::Const(Scope(other_), {1.f, 2.f});
};

TEST_F(NodeRequestTest, NothingIsWrong) {
  ASSERT_OK_AND_ASSIGN(const Node* node, graph_.AddNode(Good()));
  EXPECT_EQ(node->computed_for(), x_.node);
}

TEST_F(NodeRequestTest, FactsAreShared) {
  const NodeRequest request = Good();
  const Node* const first = graph_.AddNode(request).value();
  EXPECT_EQ(&graph_.AddNode(request).value()->facts(), &first->facts());
  const Scope scope = Scope(graph_).Device("/gpu:1").InTower(0);
  EXPECT_EQ(&ops::Neg(scope.Named("a"), x_).node->facts(), &ops::Neg(scope.NameScope("b"), x_).node->facts());
}

TEST_F(NodeRequestTest, EveryFieldIsChecked) {
  struct Case {
    const char* field;
    std::function<void(NodeRequest&, NodeFacts&)> spoil;
    const char* reason;
  };
  const Case cases[] = {
      {"op", [](NodeRequest& r, NodeFacts&) { r.op = ""; }, "no op of this name"},
      {"name", [](NodeRequest& r, NodeFacts&) { r.name = ""; }, "a name must begin with"},
      {"name", [](NodeRequest& r, NodeFacts&) { r.name = std::string("a\0b", 3); }, "a name must begin with"},
      {"inputs", [](NodeRequest& r, NodeFacts&) { r.inputs = {}; }, "needs 1 inputs, but was given 0"},
      {"inputs", [](NodeRequest& r, NodeFacts&) { r.inputs = {Output()}; }, "an input is an invalid Output"},
      {"inputs", [this](NodeRequest& r, NodeFacts&) { r.inputs = {foreign_}; }, "an input belongs to another graph"},
      {"inputs", [](NodeRequest& r, NodeFacts&) { r.inputs[0].index = 1; }, "input Const:1 does not exist"},
      {"inputs", [](NodeRequest& r, NodeFacts&) { r.inputs[0].index = -1; }, "input Const:-1 does not exist"},
      {"control_inputs", [](NodeRequest& r, NodeFacts&) { r.control_inputs.push_back(nullptr); },
       "a control input is null"},
      {"control_inputs", [this](NodeRequest& r, NodeFacts&) { r.control_inputs.push_back(foreign_.node); },
       "a control input belongs to another graph"},
      {"attrs", [](NodeRequest& r, NodeFacts&) { r.attrs = {}; }, "attribute 'DstT' (a dtype) is missing"},
      {"attrs",
       [](NodeRequest& r, NodeFacts&) {
         r.attrs = {{"DstT", static_cast<DType>(200)}};
       },
       "attribute 'DstT' is no dtype, but the number 200"},
      {"facts", [](NodeRequest& r, NodeFacts&) { r.facts = nullptr; }, "it has no facts"},
      {"device", [](NodeRequest&, NodeFacts& f) { f.device.id = -3; }, "its device is malformed"},
      {"device", [](NodeRequest&, NodeFacts& f) { f.device.type = "a b"; }, "its device is malformed"},
      {"colocated_with", [](NodeRequest&, NodeFacts& f) { f.colocated_with = {nullptr}; },
       "a node to be colocated with is null"},
      {"colocated_with", [this](NodeRequest&, NodeFacts& f) { f.colocated_with.push_back(foreign_.node); },
       "a node to be colocated with belongs to another graph"},
      {"phase", [](NodeRequest&, NodeFacts& f) { f.phase = static_cast<Phase>(7); }, "there is no phase 7"},
      {"computed_for", [this](NodeRequest&, NodeFacts& f) { f.computed_for = foreign_.node; },
       "the node that it is computed for belongs to another graph"},
      {"tower", [](NodeRequest&, NodeFacts& f) { f.tower = -2; }, "there is no tower -2"},
  };
  for (const Case& wrong : cases) {
    EXPECT_THAT(Error(wrong.spoil),
                AllOf(HasSubstr("Cannot add node '"), HasSubstr(wrong.reason), HasSubstr("(model.cc:7)")))
        << wrong.field;
  }
}

// These are text for messages and for Scope::WithLocation, so there is no wrong value; none may crash.
TEST_F(NodeRequestTest, TextsMayBeAnything) {
  NodeRequest request = Good();
  NodeFacts facts = GoodFacts();
  facts.device_text = std::string("\0\n", 2);
  facts.tower_scope = "/";
  request.facts = std::make_shared<const NodeFacts>(facts);
  request.location = {nullptr, 7};
  ASSERT_OK_AND_ASSIGN(const Node* node, graph_.AddNode(request));
  EXPECT_FALSE(node->location().known());
  EXPECT_FALSE(node->Summary().empty());
  request.op = "Quux";
  EXPECT_THAT(graph_.AddNode(request).status().message(), HasSubstr("no op of this name"));
}

}  // namespace
}  // namespace belfry
