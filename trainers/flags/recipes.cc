#include "trainers/flags/recipes.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace belfry::trainers {
namespace {

// The text after "--name" or "-name", or nullopt for another argument.
std::optional<absl::string_view> AfterFlag(absl::string_view argument, absl::string_view name) {
  if (!absl::ConsumePrefix(&argument, "-")) return std::nullopt;
  absl::ConsumePrefix(&argument, "-");
  if (!absl::ConsumePrefix(&argument, name)) return std::nullopt;
  if (!argument.empty() && argument[0] != '=') return std::nullopt;
  return argument;
}

// Those before "--", which positional arguments follow.
absl::Span<const std::string> Flags(absl::Span<const std::string> arguments) {
  return arguments.subspan(0, std::find(arguments.begin(), arguments.end(), "--") - arguments.begin());
}

}  // namespace

absl::string_view RecipeName(absl::Span<const std::string> arguments) {
  const absl::Span<const std::string> flags = Flags(arguments);
  absl::string_view name;
  for (size_t i = 0; i < flags.size(); ++i) {
    std::optional<absl::string_view> value = AfterFlag(flags[i], "recipe");
    if (!value.has_value()) continue;
    if (value->empty() && i + 1 < flags.size()) value = flags[i + 1];
    name = absl::StripPrefix(*value, "=");
  }
  return name;
}

std::vector<std::string> ExpandRecipe(absl::Span<const std::string> arguments, absl::Span<const Recipe> recipes) {
  std::vector<std::string> all(arguments.begin(), arguments.end());
  const absl::Span<const std::string> flags = Flags(arguments);
  const auto given = [&](absl::string_view name) {
    return !name.empty() && std::any_of(flags.begin(), flags.end(), [&](const std::string& argument) {
      return AfterFlag(argument, name).has_value();
    });
  };
  const absl::string_view wanted = RecipeName(arguments);
  std::vector<std::string> added;
  for (const Recipe& recipe : recipes) {
    if (recipe.name != wanted) continue;
    for (const RecipeFlag& flag : recipe.flags) {
      if (!given(flag.unless)) added.push_back(absl::StrCat("--", flag.name, "=", flag.value));
    }
  }
  all.insert(all.begin() + std::min<size_t>(all.size(), 1), added.begin(), added.end());
  return all;
}

}  // namespace belfry::trainers
