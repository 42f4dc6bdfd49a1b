// Text that a transformer makes up, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/graph/scope.h"
#include "framework/runtime/saved_model/saved_model.h"
#include "framework/runtime/session.h"
#include "models/networks/token_choice.h"
#include "models/networks/transformer.h"

namespace belfry::models {

// The ends of a saved model (SaveModel) that predicts token by token, with N, T and S open. Inputs: "tokens" int32
// [N, T], "past" int32 [N], and for each layer "keys<i>" and "values<i>" [N, S, kv_heads, width / heads]. Outputs:
// "logits" [N, T, vocabulary], and for each layer "new_keys<i>" and "new_values<i>" [N, T, kv_heads, width / heads]: as
// TransformerStep, whose variables it has.
struct StepModel {
  std::vector<NamedOutput> inputs, outputs;
};
StepModel MakeStepModel(OpScope scope, const TransformerOptions& options);

struct GenerateOptions {
  int64_t count = 200;             // tokens to add, at most
  TokenChoiceOptions choice = {};  // of each
  uint64_t seed = 1;               // the same seed and weights give the same text
  std::vector<int32_t> stop = {};  // one of these tokens ends the text, and belongs to it
  // Called with each added token, the last one included; returns false to end the text. Empty: nothing is called.
  std::function<bool(int32_t token)> use = {};
};

// The part of a graph that predicts one more token. It keeps the keys and values of earlier tokens, so a token costs
// one step of the network, however long the text before it is. Not thread-safe.
class TextGenerator {
 public:
  // Adds the nodes; the scope selects the variables, which are Transformer's. `options.length` is the context:
  // the most tokens that the model looks back on. Errors are kept by the graph.
  TextGenerator(OpScope scope, const TransformerOptions& options);

  // The steps that Generate prepares: of the prompt, in pieces, and of a token. Each has memory for the context.
  struct Step {
    std::vector<FeedSpec> feeds;
    std::vector<Output> fetches;
  };
  std::vector<Step> Steps() const;

  // Adds tokens to `prompt`, each drawn from the model's distribution given those before it, and returns all. Once the
  // context is full, its older half is dropped, so that the model looks back on at least half of it. An empty prompt
  // starts with token 0, which is left out. InvalidArgument: a token outside the vocabulary, or options out of range.
  // Aborted: a logit is NaN. Otherwise the errors of Session::Prepare and PreparedStep::Run.
  absl::StatusOr<std::vector<int32_t>> Generate(Session& session, std::vector<int32_t> prompt,
                                                const GenerateOptions& options) const;

 private:
  class Run;  // a text that is being made
  Step StepOf(int64_t tokens) const;

  const TransformerOptions options_;
  Output tokens_, past_;         // [1, T] and [1], int32
  std::vector<Output> cache_;    // the keys of each layer, then the values: [1, context, kv_heads, D]
  std::vector<Output> fetches_;  // logits [1, T, vocabulary], float32; then as cache_, of the T tokens
};

}  // namespace belfry::models
