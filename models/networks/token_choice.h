// The choice of the next token from a model's logits.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace belfry::models {

struct TokenChoiceOptions {
  double temperature = 1;  // the logits are divided by it; 0: the likeliest token each time
  int64_t top_k = 0;       // only the k likeliest tokens; 0: all
  double top_p = 1;        // of these, only the likeliest ones whose probabilities add up to p; 1: all
};

// InvalidArgument if an option is out of range: the temperature negative or not finite, top_k negative, top_p not in
// (0, 1].
absl::Status CheckTokenChoice(const TokenChoiceOptions& options);

// A token, drawn with its probability. Among equal logits, smaller tokens count as likelier. `random` is uniform
// in [0, 1). Returns -1 if a logit is NaN. REQUIRES: a logit, and valid options.
int32_t ChooseToken(absl::Span<const float> logits, const TokenChoiceOptions& options, double random);

}  // namespace belfry::models
