// Recipes: published trainings as values of flags.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace belfry::trainers {

struct RecipeFlag {
  absl::string_view name, value;
  absl::string_view unless = "";  // a flag that takes its place
};
struct Recipe {
  absl::string_view name;
  std::vector<RecipeFlag> flags;
};

// The value of the last --recipe of a command line; empty without one.
absl::string_view RecipeName(absl::Span<const std::string> arguments);

// A command line with the flags of the recipe that RecipeName() names in front of its own, which therefore win,
// but for those in whose place another flag of the command line stands. Without --recipe, or with an unknown name, the
// command line as it is.
std::vector<std::string> ExpandRecipe(absl::Span<const std::string> arguments, absl::Span<const Recipe> recipes);

}  // namespace belfry::trainers
