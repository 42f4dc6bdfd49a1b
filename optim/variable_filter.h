// Filters that select variables of a model: for weight decay, groups of optimizers, and freezing.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/variable.h"

namespace belfry::optim {

// Selects variables; null selects all.
using VariableFilter = std::function<bool(const Variable&)>;
// True for weights, which have rank 2 or more; false for biases and the scales of normalisation.
bool IsWeight(const Variable& variable);

// Selects variables whose logical name, without a tower's prefix, matches one of several patterns: `*` stands for any
// text, also one with slashes, `?` for one character, anything else for itself. A second filter narrows the choice:
//
//   optim::NameMatches("encoder/*")
//   optim::NameMatches({"encoder/*", "embedding"}, optim::IsWeight)
class NameMatches {
 public:
  explicit NameMatches(const char* pattern, VariableFilter among = {})
      : NameMatches(std::vector<std::string>{pattern}, std::move(among)) {}
  explicit NameMatches(std::vector<std::string> patterns, VariableFilter among = {})
      : patterns_(std::move(patterns)), among_(std::move(among)) {}
  bool operator()(const Variable& variable) const;

  const std::vector<std::string>& patterns() const { return patterns_; }

 private:
  std::vector<std::string> patterns_;
  VariableFilter among_;
};

// True if a name matches one pattern.
bool MatchesPattern(absl::string_view name, absl::string_view pattern);

// InvalidArgument if a filter selects none of `variables`, or if it is a NameMatches of which one pattern matches none.
// The message begins with `what`, and names the patterns and the variables.
absl::Status CheckSelects(const VariableFilter& filter, absl::Span<const Variable> variables, absl::string_view what);

}  // namespace belfry::optim
