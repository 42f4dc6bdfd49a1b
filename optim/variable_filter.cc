#include "optim/variable_filter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/graph/scope.h"

namespace belfry::optim {
namespace {

constexpr size_t kNamesShown = 20;

std::string NamesOf(absl::Span<const Variable> variables) {
  const auto name = [](std::string* out, const Variable& variable) { out->append(variable.name()); };
  const std::string names = absl::StrJoin(variables.subspan(0, kNamesShown), ", ", name);
  if (variables.size() <= kNamesShown) return absl::StrCat("[", names, "]");
  return absl::StrCat("[", names, " and ", variables.size() - kNamesShown, " more]");
}

}  // namespace

bool IsWeight(const Variable& variable) { return variable.valid() && variable.whole().shape().rank() >= 2; }

bool MatchesPattern(absl::string_view name, absl::string_view pattern) {
  size_t n = 0, p = 0, star = absl::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;  // the last star takes one more character
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool NameMatches::operator()(const Variable& variable) const {
  const auto matches = [&](const std::string& pattern) { return MatchesPattern(variable.name(), pattern); };
  if (!std::any_of(patterns_.begin(), patterns_.end(), matches)) return false;
  return among_ == nullptr || among_(variable.whole());
}

absl::Status CheckSelects(const VariableFilter& filter, absl::Span<const Variable> variables, absl::string_view what) {
  if (filter == nullptr) return absl::OkStatus();
  if (const auto* names = filter.target<NameMatches>(); names != nullptr) {
    for (const std::string& pattern : names->patterns()) {
      const auto matches = [&](const Variable& variable) { return MatchesPattern(variable.name(), pattern); };
      if (std::any_of(variables.begin(), variables.end(), matches)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          what, ": the pattern '", pattern, "' matches no variable of the model, which are ", NamesOf(variables)));
    }
    if (names->patterns().empty()) return absl::InvalidArgumentError(absl::StrCat(what, ": there are no patterns"));
  }
  if (std::any_of(variables.begin(), variables.end(), filter)) return absl::OkStatus();
  const auto* names = filter.target<NameMatches>();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": the filter",
                   names == nullptr ? std::string() : absl::StrCat(" (", absl::StrJoin(names->patterns(), ", "), ")"),
                   " selects no variable of the model, which are ", NamesOf(variables)));
}

}  // namespace belfry::optim
