#include "models/networks/transformer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "models/layers/attention.h"
#include "models/layers/layers.h"
#include "models/layers/layers_impl.h"
#include "models/layers/norm_layers.h"
#include "models/layers/positions_impl.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::models {
namespace {

constexpr double kStddev = 0.02;

MultiHeadAttentionOptions AttentionOf(const TransformerOptions& options) {
  return {.heads = options.heads,
          .kv_heads = options.kv_heads,
          .causal = true,
          .rotary = options.rotary,
          .dropout = options.dropout,
          .training = options.training,
          .weights = NormalInitializer(kStddev),
          .output_weights = NormalInitializer(kStddev / std::sqrt(2.0 * static_cast<double>(options.layers)))};
}

// x after the attention and the MLP of a layer; attend(normalised x) gives the result of the attention.
template <class Attend>
Output Block(const Scope& scope, Output x, const TransformerOptions& options, const Attend& attend) {
  const MultiHeadAttentionOptions attention = AttentionOf(options);
  x = ops::Add(scope, x, attend(LayerNorm(scope, "attention_norm", x)));
  const Output transformed = MlpBlock(scope, "mlp", LayerNorm(scope, "mlp_norm", x),
                                      {.hidden = options.hidden,
                                       .dropout = options.dropout,
                                       .training = options.training,
                                       .weights = attention.weights,
                                       .output_weights = attention.output_weights});
  return ops::Add(scope, x, transformed);
}

// An error of the arguments, which is reported in the name of `what`; false if there is none.
bool Rejects(const Scope& scope, absl::string_view what, Output tokens, const TransformerOptions& options) {
  const auto reject = [&](absl::string_view why) {
    Reject(scope, what, "", why, tokens);
    return true;
  };
  if (!tokens.valid()) return reject("has an invalid Output as input");
  if (tokens.shape().rank() != 2) return reject("needs tokens [N, T]");
  if (options.layers < 1 || options.vocabulary < 1 || options.width < 1) {
    return reject(
        absl::StrCat("has ", options.layers, " layers, ", options.vocabulary, " tokens and width ", options.width));
  }
  if (!options.rotary && tokens.shape()[1] > options.length) {
    return reject(absl::StrCat("has learned positions for ", options.length, " tokens"));
  }
  return false;
}

// The vectors [N, T, width] of tokens before the first layer. positions(table) gives the rows of the table of learned
// positions.
template <class Positions>
Output EmbedTokens(const Scope& scope, Output tokens, Output table, const TransformerOptions& options,
                   const Positions& positions) {
  const Output x = ops::Gather(scope, table, tokens);
  if (options.rotary) return x;
  const Parameter learned = GetParameter(scope, "position_embedding", {options.length, options.width},
                                         NormalInitializer(kStddev), options.dtype);
  return ops::Add(scope, x, positions(learned.used));
}

Output LogitsOf(const Scope& scope, Output x, Output tokens, Output table, const TransformerOptions& options) {
  x = LayerNorm(scope, "final_norm", x);
  if (!x.valid()) return x;
  x = ops::Reshape(scope, x, {-1, options.width});
  const Output logits = options.tied ? ops::MatMul(scope, x, table, {.transpose_b = true})
                                     : Dense(scope, "logits", x, options.vocabulary,
                                             {.use_bias = false, .weights = NormalInitializer(kStddev)});
  return ops::Reshape(scope.Named("logits"), logits,
                      {ops::Extent::Of(tokens, 0), ops::Extent::Of(tokens, 1), options.vocabulary});
}

Parameter TokenTable(const Scope& scope, const TransformerOptions& options) {
  return GetParameter(scope, "token_embedding", {options.vocabulary, options.width}, NormalInitializer(kStddev),
                      options.dtype);
}

}  // namespace

Output Transformer(OpScope scope, Output tokens, const TransformerOptions& options) {
  if (Rejects(scope, "Transformer", tokens, options)) return Output();
  const Output table = TokenTable(scope, options).used;
  Output x =
      EmbedTokens(scope, tokens, table, options, [&](Output positions) { return FirstRows(scope, positions, tokens); });
  x = Dropout(scope, "dropout", x, options.dropout, options.training && options.dropout > 0);
  for (int64_t i = 0; i < options.layers && x.valid(); ++i) {
    const Scope layer = scope.VariableScope(absl::StrCat("layer", i));
    x = Block(layer, x, options, [&](Output normalised) {
      return MultiHeadAttention(layer, "attention", normalised, AttentionOf(options));
    });
  }
  return LogitsOf(scope, x, tokens, table, options);
}

TransformerStepOutputs TransformerStep(OpScope scope, Output tokens, Output past, const std::vector<Output>& keys,
                                       const std::vector<Output>& values, const TransformerOptions& options) {
  if (Rejects(scope, "TransformerStep", tokens, options)) return {};
  const auto layers = static_cast<size_t>(options.layers);
  if (!past.valid() || keys.size() != layers || values.size() != layers) {
    return {Reject(scope, "TransformerStep", "", "needs `past`, and keys and values of each layer", tokens), {}, {}};
  }
  TransformerOptions exact = options;
  exact.training = false;
  const Output table = TokenTable(scope, exact).used;
  Output x = EmbedTokens(scope, tokens, table, exact, [&](Output positions) {
    const Output last = ops::Const(scope, static_cast<int32_t>(options.length - 1));
    // Padding after the last token may lie beyond the table; an earlier token there is an error of Gather.
    const Output within = ops::Minimum(scope, PositionsAfter(scope, past, tokens), last);
    return ops::Gather(scope, positions, ops::Maximum(scope, within, ops::ExpandDims(scope, past, 1)));
  });
  TransformerStepOutputs outputs;
  for (size_t i = 0; i < layers && x.valid(); ++i) {
    const Scope layer = scope.VariableScope(absl::StrCat("layer", i));
    x = Block(layer, x, exact, [&](Output normalised) {
      const CachedAttentionOutputs attended =
          CachedAttention(layer, "attention", normalised, keys[i], values[i], past, AttentionOf(exact));
      outputs.keys.push_back(attended.keys);
      outputs.values.push_back(attended.values);
      return attended.y;
    });
  }
  outputs.logits = LogitsOf(scope, x, tokens, table, exact);
  return outputs;
}

std::vector<Output> CachePlaceholders(OpScope scope, absl::string_view name, int64_t n, int64_t s,
                                      const TransformerOptions& options) {
  const int64_t kv_heads = options.kv_heads == 0 ? options.heads : options.kv_heads;
  std::vector<Output> cache;
  for (int64_t i = 0; i < options.layers; ++i) {
    cache.push_back(ops::Placeholder(scope.Named(absl::StrCat(name, i)), options.dtype,
                                     {n, s, kv_heads, options.width / options.heads}));
  }
  return cache;
}

}  // namespace belfry::models
