#include "models/networks/transformer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "models/layers/attention.h"
#include "models/layers/layers.h"
#include "models/layers/layers_impl.h"
#include "models/layers/norm_layers.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::models {
namespace {

constexpr double kStddev = 0.02;

Output Block(const Scope& scope, Output x, const TransformerOptions& options) {
  const Initializer weights = NormalInitializer(kStddev);
  const Initializer last = NormalInitializer(kStddev / std::sqrt(2.0 * static_cast<double>(options.layers)));
  const Output attended = MultiHeadAttention(scope, "attention", LayerNorm(scope, "attention_norm", x),
                                             {.heads = options.heads,
                                              .kv_heads = options.kv_heads,
                                              .causal = true,
                                              .rotary = options.rotary,
                                              .dropout = options.dropout,
                                              .training = options.training,
                                              .weights = weights,
                                              .output_weights = last});
  x = ops::Add(scope, x, attended);
  const Output transformed = MlpBlock(scope, "mlp", LayerNorm(scope, "mlp_norm", x),
                                      {.hidden = options.hidden,
                                       .dropout = options.dropout,
                                       .training = options.training,
                                       .weights = weights,
                                       .output_weights = last});
  return ops::Add(scope, x, transformed);
}

// As many of the first rows of `table` as there are tokens [N, T] in a sequence: [T, C], or [1, T, C] if T is unknown
// so far.
Output FirstRows(const Scope& scope, Output table, Output tokens) {
  const int64_t t = tokens.shape()[1];
  if (t != Shape::kUnknown) return ops::Slice(scope, table, {0, 0}, {t, table.shape()[1]});
  const Output ones = ops::OnesLike(scope, ops::StridedSlice(scope, tokens, {0}, {1}));
  return ops::Gather(scope, table, ops::Cumsum(scope, ones, 1, {.exclusive = true}));
}

}  // namespace

Output Transformer(OpScope scope, Output tokens, const TransformerOptions& options) {
  const auto reject = [&](absl::string_view what) { return Reject(scope, "Transformer", "", what, tokens); };
  if (!tokens.valid()) return reject("has an invalid Output as input");
  if (tokens.shape().rank() != 2) return reject("needs tokens [N, T]");
  if (options.layers < 1 || options.vocabulary < 1 || options.width < 1) {
    return reject(
        absl::StrCat("has ", options.layers, " layers, ", options.vocabulary, " tokens and width ", options.width));
  }
  if (!options.rotary && tokens.shape()[1] > options.length) {
    return reject(absl::StrCat("has learned positions for ", options.length, " tokens"));
  }

  const Initializer weights = NormalInitializer(kStddev);
  const Parameter embedding =
      GetParameter(scope, "token_embedding", {options.vocabulary, options.width}, weights, options.dtype);
  Output x = ops::Gather(scope, embedding.used, tokens);
  if (!options.rotary) {
    const Parameter positions =
        GetParameter(scope, "position_embedding", {options.length, options.width}, weights, options.dtype);
    x = ops::Add(scope, x, FirstRows(scope, positions.used, tokens));
  }
  x = Dropout(scope, "dropout", x, options.dropout, options.training && options.dropout > 0);
  for (int64_t i = 0; i < options.layers && x.valid(); ++i) {
    x = Block(scope.VariableScope(absl::StrCat("layer", i)), x, options);
  }
  x = LayerNorm(scope, "final_norm", x);
  if (!x.valid()) return x;
  x = ops::Reshape(scope, x, {-1, options.width});
  const Output logits = options.tied
                            ? ops::MatMul(scope, x, embedding.used, {.transpose_b = true})
                            : Dense(scope, "logits", x, options.vocabulary, {.use_bias = false, .weights = weights});
  return ops::Reshape(scope.Named("logits"), logits,
                      {ops::Extent::Of(tokens, 0), ops::Extent::Of(tokens, 1), options.vocabulary});
}

}  // namespace belfry::models
