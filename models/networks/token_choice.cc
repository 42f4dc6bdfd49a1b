#include "models/networks/token_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"

namespace belfry::models {
namespace {

// The first `count` tokens in the order of falling logits.
std::vector<int32_t> Likeliest(absl::Span<const float> logits, size_t count) {
  std::vector<int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(tokens.begin(), end, tokens.end(), likelier);
  tokens.resize(count);
  return tokens;
}

// The smallest number of the first weights whose sum is at least the share `p` of all.
size_t CountOfShare(absl::Span<const double> weights, double p) {
  const double enough = p * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (sum >= enough) return i + 1;
  }
  return weights.size();
}

}  // namespace

absl::Status CheckTokenChoice(const TokenChoiceOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the temperature is ", options.temperature, "; expected a finite number of at least 0"));
  }
  if (options.top_k < 0) {
    return absl::InvalidArgumentError(absl::StrCat("top_k is ", options.top_k, "; expected at least 0"));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_p is ", options.top_p, "; expected more than 0, and at most 1"));
  }
  return absl::OkStatus();
}

int32_t ChooseToken(absl::Span<const float> logits, const TokenChoiceOptions& options, double random) {
  if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); })) return -1;
  const auto top = std::max_element(logits.begin(), logits.end());
  const auto likeliest = static_cast<int32_t>(top - logits.begin());
  if (options.temperature == 0) return likeliest;

  const auto all = logits.size();
  const size_t most = options.top_k == 0 ? all : std::min(all, static_cast<size_t>(options.top_k));
  std::vector<int32_t> tokens;  // empty: all, in the order of the vocabulary
  if (most < all || options.top_p < 1) tokens = Likeliest(logits, most);
  std::vector<double> weights(most);
  for (size_t i = 0; i < most; ++i) {
    const float logit = logits[tokens.empty() ? i : static_cast<size_t>(tokens[i])];
    weights[i] = logit == *top ? 1 : std::exp((logit - *top) / options.temperature);
  }
  if (options.top_p < 1) weights.resize(CountOfShare(weights, options.top_p));
  double left = random * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return tokens.empty() ? static_cast<int32_t>(i) : tokens[i];
  }
  return likeliest;  // by rounding
}

}  // namespace belfry::models
