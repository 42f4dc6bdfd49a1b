#include "optim/parameter_groups.h"

#include <string>
#include <tuple>
#include <vector>

#include "framework/graph/graph.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "optim/adam.h"
#include "optim/apply.h"
#include "optim/clip.h"
#include "optim/descent.h"
#include "optim/lars.h"
#include "tests/main/testing.h"
#include "tests/optim/graph_runner.h"

namespace belfry::optim {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(MatchesPatternTest, StarsAndQuestionMarks) {
  const std::vector<std::tuple<std::string, std::string, bool>> cases = {
      {"encoder/w", "encoder/w", true},
      {"encoder/w", "encoder", false},
      {"encoder/w", "encoder/ww", false},
      {"encoder/w", "*", true},
      {"encoder/layer_1/w", "encoder/*", true},
      {"encoder/layer_1/w", "encoder/*/w", true},
      {"encoder/layer_1/w", "*/b", false},
      {"my_encoder/w", "encoder/*", false},
      {"layer_1/w", "layer_?/w", true},
      {"layer_10/w", "layer_?/w", false},
      {"layer_10/w", "layer_?0/?", true},
      {"aXbXbc", "a*bc", true},
      {"aXbXb", "a*bc", false},
      {"abab", "*ab*ab*", true},
      {"aba", "*ab*ab*", false},
      {"", "*", true},
      {"", "?", false},
      {"", "", true},
      {"w", "", false},
      {"a.c", "a.c", true},
      {"abc", "a.c", false},
      {"w", "***", true},
      {std::string(3000, 'a'), "*a*a*a*a*a*a*a*a*b", false},
  };
  for (const auto& [name, pattern, matches] : cases) {
    EXPECT_EQ(MatchesPattern(name, pattern), matches) << name << " by " << pattern;
  }
}

class ParameterGroupsTest : public ::testing::Test {
 protected:
  Graph graph_{BuiltinOps()};
  Scope root_{graph_};
  const Variable weights_ = GetVariable(root_.VariableScope("encoder"), "weights", {8, 16}, ConstantInitializer(1)),
                 biases_ = GetVariable(root_.VariableScope("encoder"), "biases", {16}, ConstantInitializer(1)),
                 head_ = GetVariable(root_.VariableScope("head"), "weights", {16, 3}, ConstantInitializer(1));
  const std::vector<Variable> all_ = {weights_, biases_, head_};

  std::string CheckMessage(const Optimizer& optimizer) const { return std::string(optimizer.Check(all_).message()); }
};

TEST_F(ParameterGroupsTest, FiltersByNameCompose) {
  EXPECT_TRUE(NameMatches("encoder/*")(biases_));
  EXPECT_FALSE(NameMatches("encoder/*", IsWeight)(biases_));
  EXPECT_TRUE(NameMatches("encoder/*", IsWeight)(weights_));
  EXPECT_FALSE(NameMatches("encoder/*", IsWeight)(head_));
  EXPECT_TRUE(NameMatches({"*/biases", "head/*"})(head_));
  EXPECT_FALSE(NameMatches({"*/biases", "head/*"})(weights_));
  EXPECT_TRUE(NameMatches("*", IsWeight)(SliceOfVariable(root_, weights_, 0, 64))) << "a part is as the whole";
}

TEST_F(ParameterGroupsTest, TheFirstGroupThatSelectsAVariableUpdatesIt) {
  const ParameterGroups groups({{NameMatches("encoder/*", IsWeight), GradientDescent({.learning_rate = 0.25})},
                                {NameMatches("encoder/*"), Adam({.learning_rate = 0.5})},
                                {NameMatches("encoder/b*"), GradientDescent({.learning_rate = 9})}},
                               Momentum({.learning_rate = 0.125}));
  EXPECT_EQ(groups.learning_rate().At(0), 0.125);
  EXPECT_TRUE(groups.takes_sparse());
  EXPECT_EQ(groups.count_slot(weights_), "");
  EXPECT_EQ(groups.count_slot(biases_), "Adam_updates");
  std::vector<GradientAndVariable> pairs;
  for (const Variable& variable : all_) pairs.push_back({ops::OnesLike(root_, variable), variable});
  const Node* const train = ApplyGradients(root_, groups, pairs);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  GraphRunner runner(graph_);
  runner.RunTarget(train);
  EXPECT_THAT(runner.Value(weights_), Each(0.75));
  EXPECT_THAT(runner.Value(biases_), Each(::testing::DoubleNear(0.5, 1e-6)));
  EXPECT_THAT(runner.Value(head_), Each(0.875));
  EXPECT_TRUE(graph_.FindVariable("encoder/biases/Adam_updates", 0).valid());
  EXPECT_FALSE(graph_.FindVariable("encoder/weights/Adam_updates", 0).valid());
  EXPECT_TRUE(graph_.FindVariable("head/weights/Momentum", 0).valid());
}

TEST_F(ParameterGroupsTest, AreSparseIfAllAre) {
  const GradientDescent descent({.learning_rate = 1});
  EXPECT_FALSE(ParameterGroups({{IsWeight, Lars()}}, descent).takes_sparse());
  EXPECT_FALSE(ParameterGroups({{IsWeight, descent}}, Lars()).takes_sparse());
}

TEST_F(ParameterGroupsTest, GroupsWithoutVariables) {
  const GradientDescent descent({.learning_rate = 1});
  EXPECT_EQ(ParameterGroups({{IsWeight, descent}, {NameMatches("*/biases"), descent}}, descent).Check(all_),
            absl::OkStatus());
  EXPECT_EQ(ParameterGroups({{nullptr, descent}}, descent).Check(all_), absl::OkStatus());
  EXPECT_THAT(CheckMessage(ParameterGroups({{IsWeight, descent}, {NameMatches("encodr/*"), descent}}, descent)),
              AllOf(HasSubstr("Parameter group 1: the pattern 'encodr/*' matches no variable"),
                    HasSubstr("[encoder/weights, encoder/biases, head/weights]")));
  EXPECT_THAT(CheckMessage(ParameterGroups({{NameMatches({"head/*", "tail/*"}), descent}}, descent)),
              HasSubstr("the pattern 'tail/*'"));
  EXPECT_THAT(CheckMessage(ParameterGroups({{NameMatches("*/biases", IsWeight), descent}}, descent)),
              HasSubstr("the filter (*/biases) selects no variable"));
  EXPECT_THAT(CheckMessage(ParameterGroups({{[](const Variable&) { return false; }, descent}}, descent)),
              HasSubstr("Parameter group 0: the filter selects no variable"));
  EXPECT_THAT(CheckMessage(ParameterGroups({{IsWeight, descent}, {NameMatches("head/*"), descent}}, descent)),
              HasSubstr("Parameter group 1: earlier groups take all variables"));
  const ParameterGroups inner({{NameMatches("tail/*"), descent}}, descent);
  EXPECT_THAT(CheckMessage(ParameterGroups({{NameMatches("head/*"), descent}}, inner)),
              AllOf(HasSubstr("tail/*"), ::testing::Not(HasSubstr("head/weights"))));
}

TEST_F(ParameterGroupsTest, ClippedWeightsStayWithinTheirBounds) {
  const ClipWeights clipped(Momentum({.learning_rate = 0.5}), -0.25, 0.25, NameMatches("encoder/*"));
  EXPECT_EQ(clipped.Check(all_), absl::OkStatus());
  std::vector<GradientAndVariable> pairs;
  for (const Variable& variable : all_) pairs.push_back({ops::OnesLike(root_, variable), variable});
  const Node* const train = ApplyGradients(root_, clipped, pairs);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  GraphRunner runner(graph_);
  runner.RunTarget(train);
  EXPECT_THAT(runner.Value(weights_), Each(0.25)) << "1 - 0.5";
  EXPECT_THAT(runner.Value(head_), Each(0.5));
  runner.RunTarget(train);
  EXPECT_THAT(runner.Value(weights_), Each(-0.25)) << "0.25 - 0.95";
  EXPECT_THAT(CheckMessage(ClipWeights(GradientDescent({.learning_rate = 1}), 1, -1)), HasSubstr("bounds 1 and -1"));
  EXPECT_THAT(CheckMessage(ClipWeights(GradientDescent({.learning_rate = 1}), -1, 1, NameMatches("tail/*"))),
              HasSubstr("ClipWeights: the pattern 'tail/*' matches no variable"));
}

}  // namespace
}  // namespace belfry::optim
