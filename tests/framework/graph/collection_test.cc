#include "absl/strings/str_cat.h"
#include "framework/graph/scope.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(InScope, GoesByWholeComponents) {
  EXPECT_TRUE(InScope("tower_1/x", "tower_1"));
  EXPECT_TRUE(InScope("tower_1/x", "tower_1/"));
  EXPECT_TRUE(InScope("tower_1/a/b", "tower_1/a"));
  EXPECT_TRUE(InScope("tower_1", "tower_1"));
  EXPECT_TRUE(InScope("tower_1/", "tower_1"));
  EXPECT_TRUE(InScope("tower_1", "tower_1/"));
  EXPECT_TRUE(InScope("tower_1/x", ""));
  EXPECT_TRUE(InScope("", ""));
  EXPECT_FALSE(InScope("tower_10/x", "tower_1"));
  EXPECT_FALSE(InScope("tower_10", "tower_1"));
  EXPECT_FALSE(InScope("tower_1", "tower_1/x"));
  EXPECT_FALSE(InScope("a/tower_1/x", "tower_1"));
  EXPECT_FALSE(InScope("tower_1", "tower"));
  EXPECT_FALSE(InScope("Tower_1", "tower_1"));
  EXPECT_FALSE(InScope("", "x"));
  EXPECT_FALSE(InScope("tower.1/x", "tower_1"));  // the scope is not a regular expression
  EXPECT_FALSE(InScope("tower_1/x", "tower.1"));
}

TEST(Collection, IsFilteredByScope) {
  Graph graph(BuiltinOps());
  const Scope root(graph);
  std::vector<Output> losses;
  for (int i = 0; i < 12; ++i) {
    const Scope tower = root.NameScope("tower_" + std::to_string(i));
    losses.push_back(ops::Const(tower.NameScope("loss"), 1.0f));
    tower.AddToCollection(kLosses, losses.back());
  }
  EXPECT_EQ(graph.GetCollection(kLosses), losses);
  EXPECT_THAT(graph.GetCollection(kLosses, "tower_1"), ElementsAre(losses[1]));
  EXPECT_THAT(graph.GetCollection(kLosses, "tower_1/"), ElementsAre(losses[1]));
  EXPECT_THAT(graph.GetCollection(kLosses, "tower_11"), ElementsAre(losses[11]));
  EXPECT_THAT(graph.GetCollection(kLosses, "tower"), IsEmpty());
  EXPECT_THAT(graph.GetCollection("unknown"), IsEmpty());
}

TEST(Collection, KeepsTheOrderAndRepeats) {
  Graph graph(BuiltinOps());
  const Scope root(graph);
  const Output a = ops::Const(root, 1.0f), b = ops::Const(root, 2.0f);
  for (const Output& output : {b, a, b}) root.AddToCollection("mine", output);
  EXPECT_THAT(graph.GetCollection("mine"), ElementsAre(b, a, b));
  EXPECT_EQ(graph.collection("mine").size(), 3u);
}

TEST(Collection, AnInvalidMemberIsTheGraphsErrorWithTheCallersLine) {
  Graph graph(BuiltinOps());
  const Scope tower = Scope(graph).NameScope("tower_0");
  tower.AddToCollection("metrics", Output());
  const int line = __LINE__ - 1;
  EXPECT_THAT(graph.GetCollection("metrics"), IsEmpty());
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("A member of the collection 'metrics' in scope 'tower_0/' is an invalid Output"),
                             HasSubstr(absl::StrCat("collection_test.cc:", line)))));
}

TEST(Collection, AnInvalidMemberDoesNotHideTheFirstError) {
  Graph graph(BuiltinOps());
  graph.Fail(absl::NotFoundError("the first"));
  Scope(graph).AddToCollection("metrics", Output());
  EXPECT_EQ(graph.status().message(), "the first");
}

TEST(Collection, ReturnsACopy) {
  Graph graph(BuiltinOps());
  const Scope root(graph);
  root.AddToCollection("mine", ops::Const(root, 1.0f));
  graph.GetCollection("mine").clear();
  EXPECT_EQ(graph.GetCollection("mine").size(), 1u);
}

TEST(Collection, HoldsTowers) {
  Graph graph(BuiltinOps());
  const Scope root(graph);
  for (const char* name : {"train/tower_0/", "train/tower_1/", "test/tower_0/"}) {
    root.AddToCollection(kTrainModels, Tower{.index = name[12] - '0', .scope = name});
  }
  root.AddToCollection(kTrainModels, ops::Const(root, 1.0f));
  EXPECT_EQ(graph.GetTowers(kTrainModels).size(), 3u);
  const std::vector<Tower> train = graph.GetTowers(kTrainModels, "train");
  ASSERT_EQ(train.size(), 2u);
  EXPECT_EQ(train[1].scope, "train/tower_1/");
  EXPECT_EQ(graph.GetTowers(kTrainModels, "train/tower_1").size(), 1u);
  EXPECT_EQ(graph.GetCollection(kTrainModels).size(), 1u);
}

}  // namespace
}  // namespace belfry
