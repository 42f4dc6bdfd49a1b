#include "trainers/flags/recipes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace belfry::trainers {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Expand(const std::vector<std::string>& arguments) {
  const std::vector<Recipe> recipes = {
      {"fast", {{"rate", "1.5"}, {"batch", "1024", "batch_of_each"}, {"epochs", "9.9", "steps"}}},
      {"slow", {{"rate", "0.1"}}}};
  return ExpandRecipe(arguments, recipes);
}

TEST(Recipes, StandInFrontOfWhatIsGiven) {
  EXPECT_THAT(Expand({"program", "--rate=2", "--recipe=fast"}),
              ElementsAre("program", "--rate=1.5", "--batch=1024", "--epochs=9.9", "--rate=2", "--recipe=fast"));
  EXPECT_THAT(Expand({"program", "-recipe", "slow"}), ElementsAre("program", "--rate=0.1", "-recipe", "slow"));
}

TEST(Recipes, LeaveOutWhatAnotherFlagReplaces) {
  EXPECT_THAT(Expand({"program", "--recipe=fast", "--steps", "5", "-batch_of_each=8"}),
              ElementsAre("program", "--rate=1.5", "--recipe=fast", "--steps", "5", "-batch_of_each=8"));
  EXPECT_THAT(
      Expand({"program", "--recipe=fast", "--steps_and_more=5"}),
      ElementsAre("program", "--rate=1.5", "--batch=1024", "--epochs=9.9", "--recipe=fast", "--steps_and_more=5"));
}

TEST(Recipes, TheLastNameCounts) {
  EXPECT_THAT(Expand({"program", "--recipe=fast", "--recipe=slow"}),
              ElementsAre("program", "--rate=0.1", "--recipe=fast", "--recipe=slow"));
}

TEST(Recipes, HaveTheLastName) {
  EXPECT_EQ(RecipeName({"program", "--recipe=fast", "-recipe", "slow"}), "slow");
  EXPECT_EQ(RecipeName({"program", "--recipes=fast"}), "");
  EXPECT_EQ(RecipeName({"program", "--", "--recipe=fast"}), "");
}

TEST(Recipes, LeaveOtherCommandLinesAlone) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"program"},
                                             {"program", "--recipe=none", "--rate=2"},
                                             {"program", "--recipe="},
                                             {"program", "--recipe"},
                                             {"program", "recipe=fast"},
                                             {"program", "--", "--recipe=fast"}}) {
    EXPECT_EQ(Expand(arguments), arguments);
  }
}

}  // namespace
}  // namespace belfry::trainers
