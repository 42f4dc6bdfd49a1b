// Names of nodes and name scopes: TensorFlow 1's rules.
#include "framework/graph/scope.h"

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/state.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The name given to a node that requests `name`.
std::string NameOf(const Scope& scope, absl::string_view name) {
  const Output output = ops::Const(scope.Named(name), 1.0f);
  return output.valid() ? output.node->name() : std::string(scope.status().message());
}

std::vector<std::string> NamesOf(const Scope& scope, const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const std::string& name : wanted) names.push_back(NameOf(scope, name));
  return names;
}

class Names : public testing::Test {
 protected:
  Graph graph_{BuiltinOps()};
  const Scope root_{graph_};
};
using NameScope = Names;

TEST_F(Names, AreCountedUp) {
  EXPECT_THAT(NamesOf(root_, {"foo", "foo", "foo"}), ElementsAre("foo", "foo_1", "foo_2"));
  EXPECT_THAT(NamesOf(root_, {"foo_1", "foo_1"}), ElementsAre("foo_1_1", "foo_1_2"));
  EXPECT_EQ(NameOf(root_, "foo_1_2"), "foo_1_2_1");
  const Scope bar = root_.NameScope("bar");
  EXPECT_THAT(NamesOf(bar, {"foo", "foo"}), ElementsAre("bar/foo", "bar/foo_1"));
  EXPECT_EQ(NameOf(bar.NameScope(""), "foo"), "foo_3");
  EXPECT_EQ(NameOf(bar.NameScope("baz"), "foo"), "bar/baz/foo");
  EXPECT_EQ(NameOf(bar.NameScope("baz"), "foo"), "bar/baz_1/foo");
}

TEST_F(Names, SkipThoseThatAreTaken) {
  EXPECT_THAT(NamesOf(root_, {"foo_2", "foo", "foo", "foo"}), ElementsAre("foo_2", "foo", "foo_1", "foo_3"));
}

TEST_F(Names, DifferByMoreThanCase) {
  EXPECT_THAT(NamesOf(root_, {"foo", "Foo", "FOO"}), ElementsAre("foo", "Foo_1", "FOO_2"));
  EXPECT_EQ(root_.NameScope("bar").name(), "bar/");
  EXPECT_EQ(root_.NameScope("Bar").name(), "Bar_1/");
}

TEST_F(Names, OfTheFirstTutorial) {
  std::vector<std::string> names;
  for (const char* op : {"Const", "Const", "MatMul", "Const", "Const", "MatMul", "AddN"}) {
    names.push_back(graph_.UniqueName(op));
  }
  EXPECT_THAT(names, ElementsAre("Const", "Const_1", "MatMul", "Const_2", "Const_3", "MatMul_1", "AddN"));
}

TEST_F(Names, ComeFromTheOpIfNoneIsWanted) {
  const Scope scope = root_.NameScope("a");
  EXPECT_EQ(ops::Const(scope, 1.0f).name(), "a/Const:0");
  EXPECT_EQ(ops::Const(scope, 1.0f).name(), "a/Const_1:0");
}

TEST_F(Names, ThatAreMalformed) {
  for (const char* name : {"a b", "_a", "-a", "a:0", "a/", "/a", "a\n", "ä"}) {
    Graph graph(BuiltinOps());
    const Scope root(graph);
    EXPECT_FALSE(ops::Const(root.Named(name), 1.0f).valid()) << name;
    EXPECT_EQ(root.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(root.status().message(), HasSubstr(name));
    EXPECT_THAT(root.status().message(), HasSubstr("a name must begin with"));
    EXPECT_THAT(root.status().message(), HasSubstr("names_test.cc:"));
  }
  Graph graph(BuiltinOps());
  const Scope root(graph);
  // Inside a scope, a name may begin with more characters.
  EXPECT_THAT(NamesOf(root, {"a.b-c\\d", "9", ".x"}), ElementsAre("a.b-c\\d", "9", ".x"));
  EXPECT_THAT(NamesOf(root.NameScope("s"), {"_a", "-a", ".a", "\\a"}), ElementsAre("s/_a", "s/-a", "s/.a", "s/\\a"));
}

TEST_F(Names, FindTheirNodes) {
  const Output a = ops::Const(root_.NameScope("s").Named("a"), 1.0f);
  EXPECT_EQ(graph_.FindNode("s/a"), a.node);
  EXPECT_EQ(graph_.FindNode("s/A"), nullptr);
  EXPECT_EQ(graph_.FindNode("s"), nullptr);
  EXPECT_EQ(graph_.FindNode(""), nullptr);
}

TEST_F(NameScope, Nests) {
  const Scope tower = root_.NameScope("tower_0");
  EXPECT_EQ(tower.name(), "tower_0/");
  EXPECT_EQ(tower.NameScope("conv1").name(), "tower_0/conv1/");
  EXPECT_EQ(tower.NameScope("conv1").name(), "tower_0/conv1_1/");
  EXPECT_EQ(root_.NameScope("conv1").name(), "conv1/");
}

TEST_F(NameScope, WithASlashIsEnteredAgain) {
  const Scope tower = root_.NameScope("tower_0");
  EXPECT_EQ(NameOf(tower, "x"), "tower_0/x");
  EXPECT_EQ(root_.NameScope("tower_0/").name(), "tower_0/");
  EXPECT_EQ(NameOf(root_.NameScope("tower_0/"), "x"), "tower_0/x_1");
  // A full path means the same scope wherever it is entered from.
  EXPECT_EQ(tower.NameScope("other/").name(), "other/");
  EXPECT_EQ(tower.NameScope("inner").NameScope(tower.name()).name(), "tower_0/");
}

TEST_F(NameScope, OfATowerIsEnteredFromTheTowerOnly) {
  const Scope tower = root_.NameScope("tower_0").InTower(0);
  NameOf(tower, "x");
  EXPECT_EQ(tower.NameScope("inner").NameScope(tower.name()).name(), "tower_0/");
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
  const int line = __LINE__ + 1;
  root_.NameScope(tower.name());
  EXPECT_THAT(std::string(graph_.status().message()),
              AllOf(HasSubstr("tower 'tower_0/'"), HasSubstr("tower.Variables("),
                    HasSubstr(absl::StrCat("names_test.cc:", line))));
}

// Everything except the path of variables stays.
TEST_F(NameScope, OfAnotherNetworkInATower) {
  const Output step = ops::Const(root_, int64_t{0}), on = ops::Const(root_, true);
  const Scope tower = root_.VariableScope("first")
                          .NameScope("tower_1")
                          .InTower(1)
                          .Replica(1)
                          .Device("/cpu:1")
                          .InTrainStep("train")
                          .RandomCounters(step, {})
                          .ShareStatistics({.name = "group", .rank = 1, .size = 2})
                          .OnlyIf(on);
  const Scope other = tower.Variables("second/net");
  EXPECT_EQ(other.variable_path(), "second/net/");
  EXPECT_EQ(other.name(), absl::StrCat(tower.name(), "second/net/"));
  EXPECT_EQ(other.random_path(), "second/net/");
  EXPECT_EQ(other.tower(), 1);
  EXPECT_EQ(other.replica(), 1);
  EXPECT_EQ(other.device(), tower.device());
  EXPECT_EQ(other.train_step(), "train");
  EXPECT_EQ(other.random_counters(), tower.random_counters());
  EXPECT_EQ(other.statistics_group().size, 2);
}

TEST_F(NameScope, SharesItsNamesWithNodes) {
  EXPECT_EQ(NameOf(root_, "conv"), "conv");
  EXPECT_EQ(root_.NameScope("conv").name(), "conv_1/");
  EXPECT_EQ(NameOf(root_, "conv"), "conv_2");
}

TEST_F(NameScope, ForgetsAWantedName) {
  EXPECT_EQ(ops::Const(root_.Named("x").NameScope("s"), 1.0f).node->name(), "s/Const");
}

TEST_F(NameScope, IsAValue) {
  const Scope scope = root_.NameScope("s");
  EXPECT_EQ(root_.name(), "");
  EXPECT_EQ(NameOf(root_, "x"), "x");
  EXPECT_EQ(NameOf(scope, "x"), "s/x");
}

}  // namespace
}  // namespace belfry
