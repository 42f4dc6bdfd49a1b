#include "models/networks/text_encoder.h"

#include "absl/strings/str_cat.h"
#include "models/layers/attention.h"
#include "models/layers/layers.h"
#include "models/layers/layers_impl.h"
#include "models/layers/norm_layers.h"
#include "models/layers/positions_impl.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {
namespace {

Initializer EncoderWeights() { return NormalInitializer(0.02); }

Output EncoderTable(const Scope& scope, absl::string_view name, int64_t rows, const TextEncoderOptions& options) {
  return GetParameter(scope, name, {rows, options.width}, EncoderWeights(), options.dtype).used;
}

// The sum of the embeddings of a token, its position and its type, normalised.
Output EncoderEmbedding(const Scope& scope, Output tokens, Output types, const TextEncoderOptions& options) {
  Output x = ops::Gather(scope, EncoderTable(scope, "token_embedding", options.vocabulary, options), tokens);
  x = ops::Add(scope, x, FirstRows(scope, EncoderTable(scope, "position_embedding", options.length, options), tokens));
  const Output table = EncoderTable(scope, "type_embedding", options.types, options);
  x = ops::Add(scope, x,
               types.valid() ? ops::Gather(scope, table, types) : ops::Slice(scope, table, {0, 0}, {1, options.width}));
  x = LayerNorm(scope, "embedding_norm", x, options.epsilon);
  return Dropout(scope, "dropout", x, options.dropout, options.training && options.dropout > 0);
}

}  // namespace

TextEncoderOutputs TextEncoder(OpScope scope, Output tokens, Output mask, Output types,
                               const TextEncoderOptions& options) {
  const auto reject = [&](absl::string_view why) {
    return TextEncoderOutputs{Reject(scope, "TextEncoder", "", why, tokens), {}};
  };
  if (!tokens.valid()) return reject("has an invalid Output as input");
  if (tokens.shape().rank() != 2) return reject("needs tokens [N, T]");
  if (mask.valid() && (mask.shape().rank() != 2 || mask.dtype() != DType::kBool)) {
    return reject("needs a mask of bool [N, T]");
  }
  if (options.layers < 1 || options.vocabulary < 1 || options.types < 1 || options.width < 1) {
    return reject(absl::StrCat("has ", options.layers, " layers, ", options.vocabulary, " tokens, ", options.types,
                               " types and width ", options.width));
  }
  if (tokens.shape()[1] > options.length) {
    return reject(absl::StrCat("has learned positions for ", options.length, " tokens"));
  }
  if (mask.valid()) mask = ops::ExpandDims(scope, ops::ExpandDims(scope, mask, 1), 1);  // for all heads and queries
  const EncoderLayerOptions layer = {.heads = options.heads,
                                     .hidden = options.hidden,
                                     .mask = mask,
                                     .dropout = options.dropout,
                                     .training = options.training,
                                     .epsilon = options.epsilon,
                                     .weights = EncoderWeights()};
  Output x = EncoderEmbedding(scope, tokens, types, options);
  for (int64_t i = 0; i < options.layers && x.valid(); ++i) {
    x = EncoderLayer(scope, absl::StrCat("layer", i), x, layer);
  }
  if (!options.pooled || !x.valid()) return {x, {}};
  const Output first = ops::Squeeze(scope, ops::StridedSlice(scope, x, {0, 0}, {ops::kSliceEnd, 1}), {1});
  return {x, ops::Tanh(scope, Dense(scope, "pooler", first, options.width, {.weights = EncoderWeights()}))};
}

}  // namespace belfry::models
