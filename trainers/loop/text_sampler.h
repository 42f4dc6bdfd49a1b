// Text that a language model makes up.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "trainers/loop/planned_step.h"

namespace belfry::trainers {

struct SampleOptions {
  int64_t count = 200;     // tokens to add
  double temperature = 1;  // logits are divided by it; 0: the likeliest token each time
  uint64_t seed = 1;       // the same seed and weights give the same text
};

// The part of a graph that predicts one more token. Not thread-safe.
class TextSampler {
 public:
  // Builds logits [1, T, vocabulary] for tokens [1, T], in evaluation mode; those of a position depend on it and what
  // is before it.
  using LogitsFunction = std::function<Output(const Scope& scope, Output tokens)>;

  // Adds the nodes; the scope selects the variables. `context`: T, the most tokens that the model looks back on. Errors
  // are kept by the graph.
  TextSampler(OpScope scope, int64_t context, const LogitsFunction& logits);

  // The step that Sample runs, for TrainerOptions::evaluation_steps.
  PlannedStep Step() const;

  // Adds tokens to `prompt`, each drawn from the model's distribution given the last T before it, and returns all. An
  // empty prompt starts with token 0, which is left out. InvalidArgument: a token outside the vocabulary, or options
  // out of range. Aborted: a logit is NaN. Otherwise the errors of Session::Prepare and PreparedStep::Run.
  absl::StatusOr<std::vector<int32_t>> Sample(Session& session, std::vector<int32_t> prompt,
                                              const SampleOptions& options) const;

 private:
  const int64_t context_;
  int64_t vocabulary_ = 0;
  Output tokens_, logits_;  // [1, T] int32; [T, vocabulary] float32
};

}  // namespace belfry::trainers
