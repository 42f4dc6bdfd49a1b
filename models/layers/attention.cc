#include "models/layers/attention.h"

#include "absl/strings/str_cat.h"
#include "models/layers/layers.h"
#include "models/layers/layers_impl.h"
#include "ops/array.h"
#include "ops/nn.h"

namespace belfry::models {
namespace {

// [..., C] as a matrix: a product of it is one product and not one for each sequence.
Output AsRows(const Scope& scope, Output x) { return ops::Reshape(scope, x, {-1, x.shape()[-1]}); }

}  // namespace

Output MultiHeadAttention(OpScope scope, absl::string_view name, Output x, const MultiHeadAttentionOptions& options) {
  const auto reject = [&](absl::string_view what) { return Reject(scope, "MultiHeadAttention", name, what, x); };
  if (!x.valid()) return reject("has an invalid Output as input");
  if (!IsFloating(x.dtype())) return reject(kNeedsFloats);
  if (x.shape().rank() != 3 || x.shape()[2] == Shape::kUnknown) return reject("needs [N, T, C] with known C");
  const int64_t c = x.shape()[2];
  const int64_t heads = options.heads, kv_heads = options.kv_heads == 0 ? heads : options.kv_heads;
  if (heads < 1 || c < heads || c % heads != 0 || kv_heads < 1 || heads % kv_heads != 0) {
    return reject(absl::StrCat("cannot split ", c, " channels into ", heads, " heads, or these among ", kv_heads,
                               " heads of keys"));
  }

  const Scope layer = scope.VariableScope(name);
  const int64_t width = c / heads, all_heads = heads + 2 * kv_heads;
  Output qkv = Dense(layer, "qkv", AsRows(layer, x), all_heads * width,
                     {.use_bias = options.use_bias, .weights = options.weights});
  qkv = ops::Reshape(layer, qkv, {ops::Extent::Of(x, 0), ops::Extent::Of(x, 1), all_heads, width});
  if (options.rotary) {
    ops::RotaryOptions rotation = options.rotation;
    rotation.heads = heads + kv_heads;
    qkv = ops::Rotary(layer, qkv, rotation);
  }
  const Output mixed = ops::SelfAttention(layer, qkv, kv_heads, {.causal = options.causal, .mask = options.mask});
  const Output y = Dense(layer, "output", ops::Reshape(layer, mixed, {-1, c}), c,
                         {.use_bias = options.use_bias, .weights = options.output_weights});
  return Dropout(layer, "dropout", ops::ReshapeLike(layer, y, x), options.dropout,
                 options.training && options.dropout > 0);
}

Output MlpBlock(OpScope scope, absl::string_view name, Output x, const MlpBlockOptions& options) {
  if (!x.valid()) return Reject(scope, "MlpBlock", name, "has an invalid Output as input", x);
  if (!IsFloating(x.dtype())) return Reject(scope, "MlpBlock", name, kNeedsFloats, x);
  if (x.shape().rank() < 2 || x.shape()[-1] == Shape::kUnknown) {
    return Reject(scope, "MlpBlock", name, "needs an input of rank 2 or more with a known last extent", x);
  }
  const Scope layer = scope.VariableScope(name);
  const int64_t c = x.shape()[-1];
  Output y = Dense(layer, "hidden", AsRows(layer, x), options.hidden == 0 ? 4 * c : options.hidden,
                   {.use_bias = options.use_bias, .weights = options.weights});
  y = ops::Gelu(layer, y, options.approximate_gelu);
  y = Dense(layer, "output", y, c, {.use_bias = options.use_bias, .weights = options.output_weights});
  return Dropout(layer, "dropout", ops::ReshapeLike(layer, y, x), options.dropout,
                 options.training && options.dropout > 0);
}

}  // namespace belfry::models
