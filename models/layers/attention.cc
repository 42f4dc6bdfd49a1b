#include "models/layers/attention.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "models/layers/layers.h"
#include "models/layers/layers_impl.h"
#include "models/layers/norm_layers.h"
#include "models/layers/positions_impl.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/sequence.h"

namespace belfry::models {
namespace {

// [..., C] as a matrix: a product of it is one product and not one for each sequence.
Output AsRows(const Scope& scope, Output x) { return ops::Reshape(scope, x, {-1, x.shape()[-1]}); }

}  // namespace

namespace {

struct Heads {
  int64_t queries = 0, keys = 0, width = 0;
};

// The heads of attention over x; keys 0 after an error, which is reported in the name of `what`.
Heads CheckHeads(const OpScope& scope, absl::string_view what, absl::string_view name, Output x,
                 const MultiHeadAttentionOptions& options) {
  const auto reject = [&](absl::string_view why) {
    Reject(scope, what, name, why, x);
    return Heads();
  };
  if (!x.valid()) return reject("has an invalid Output as input");
  if (!IsFloating(x.dtype())) return reject(kNeedsFloats);
  if (x.shape().rank() != 3 || x.shape()[2] == Shape::kUnknown) return reject("needs [N, T, C] with known C");
  const int64_t c = x.shape()[2];
  const int64_t heads = options.heads, kv_heads = options.kv_heads == 0 ? heads : options.kv_heads;
  if (heads < 1 || c < heads || c % heads != 0 || kv_heads < 1 || heads % kv_heads != 0) {
    return reject(absl::StrCat("cannot split ", c, " channels into ", heads, " heads, or these among ", kv_heads,
                               " heads of keys"));
  }
  return {heads, kv_heads, c / heads};
}

// [N, T, heads, width], by the layer `name` of x.
Output Project(const Scope& layer, absl::string_view name, Output x, int64_t heads, int64_t width,
               const MultiHeadAttentionOptions& options) {
  const Output y =
      Dense(layer, name, AsRows(layer, x), heads * width, {.use_bias = options.use_bias, .weights = options.weights});
  return ops::Reshape(layer, y, {ops::Extent::Of(x, 0), ops::Extent::Of(x, 1), heads, width});
}

// [N, T, queries + 2 keys, width]
Output ProjectAll(const Scope& layer, Output x, const Heads& heads, const MultiHeadAttentionOptions& options) {
  return Project(layer, "qkv", x, heads.queries + 2 * heads.keys, heads.width, options);
}

Output ProjectBack(const Scope& layer, Output mixed, Output x, const MultiHeadAttentionOptions& options) {
  const int64_t c = x.shape()[2];
  const Output y = Dense(layer, "output", ops::Reshape(layer, mixed, {-1, c}), c,
                         {.use_bias = options.use_bias, .weights = options.output_weights});
  return ops::ReshapeLike(layer, y, x);
}

// The result of a layer, with dropout in training.
template <class Options>
Output Dropped(const Scope& layer, Output y, const Options& options) {
  return Dropout(layer, "dropout", y, options.dropout, options.training && options.dropout > 0);
}

// ops::Rotary with its defaults of x [N, T, H, D] at `positions` [N, T], which it does not take.
Output RotateAt(const Scope& scope, Output x, Output positions) {
  const Output at =
      ops::Cast(scope, ops::ExpandDims(scope, ops::ExpandDims(scope, positions, -1), -1), DType::kFloat64);
  const Output angles = AnglesAt(scope, at, x.shape()[3] / 2, ops::RotaryOptions().base);  // [N, T, 1, pairs]
  const Output cosines = ops::Cast(scope, ops::Cos(scope, angles), x.dtype());
  const Output sines = ops::Cast(scope, ops::Sin(scope, angles), x.dtype());
  const std::vector<Output> halves = ops::Split(scope, x, -1, 2);
  if (halves.size() != 2) return Output();
  const auto product = [&](Output a, Output b) { return ops::Mul(scope, a, b); };
  return ops::Concat(scope,
                     {ops::Sub(scope, product(halves[0], cosines), product(halves[1], sines)),
                      ops::Add(scope, product(halves[1], cosines), product(halves[0], sines))},
                     -1);
}

}  // namespace

Output MultiHeadAttention(OpScope scope, absl::string_view name, Output x, const MultiHeadAttentionOptions& options) {
  const Heads heads = CheckHeads(scope, "MultiHeadAttention", name, x, options);
  if (heads.keys == 0) return Output();
  const Scope layer = scope.VariableScope(name);
  Output qkv = ProjectAll(layer, x, heads, options);
  if (options.rotary) {
    ops::RotaryOptions rotation = options.rotation;
    rotation.heads = heads.queries + heads.keys;
    qkv = ops::Rotary(layer, qkv, rotation);
  }
  const Output mixed = ops::SelfAttention(layer, qkv, heads.keys, {.causal = options.causal, .mask = options.mask});
  return Dropped(layer, ProjectBack(layer, mixed, x, options), options);
}

Output CrossAttention(OpScope scope, absl::string_view name, Output x, Output memory,
                      const MultiHeadAttentionOptions& options) {
  const Heads heads = CheckHeads(scope, "CrossAttention", name, x, options);
  if (heads.keys == 0) return Output();
  if (!memory.valid()) return Reject(scope, "CrossAttention", name, "has an invalid Output as memory", x);
  if (memory.shape().rank() != 3 || memory.shape()[2] == Shape::kUnknown || memory.dtype() != x.dtype()) {
    return Reject(scope, "CrossAttention", name, "needs a memory [N, S, M] with known M, of x's dtype", memory);
  }
  if (options.rotary || options.causal) {
    return Reject(scope, "CrossAttention", name, "has no positions to rotate, or to hide as later ones", x);
  }
  const Scope layer = scope.VariableScope(name);
  const Output queries = Project(layer, "query", x, heads.queries, heads.width, options);
  const Output all = Project(layer, "memory", memory, 2 * heads.keys, heads.width, options);
  const std::vector<Output> pair = ops::Split(layer, all, 2, 2);
  if (pair.size() != 2) return Output();
  const Output mixed = ops::Attention(layer, queries, pair[0], pair[1], {.mask = options.mask});
  return Dropped(layer, ProjectBack(layer, mixed, x, options), options);
}

CachedAttentionOutputs CachedAttention(OpScope scope, absl::string_view name, Output x, Output cached_keys,
                                       Output cached_values, Output past, const MultiHeadAttentionOptions& options) {
  const Heads heads = CheckHeads(scope, "CachedAttention", name, x, options);
  if (heads.keys == 0) return {};
  for (const Output cached : {cached_keys, cached_values}) {
    if (!cached.valid() || !past.valid()) {
      return {Reject(scope, "CachedAttention", name, "has an invalid Output as input", cached), {}, {}};
    }
    const Shape expected({Shape::kUnknown, Shape::kUnknown, heads.keys, heads.width});
    if (cached.shape().CompatibleWith(expected)) continue;
    return {Reject(scope, "CachedAttention", name, absl::StrCat("needs cached keys and values ", expected.ToString()),
                   cached),
            {},
            {}};
  }
  constexpr int64_t kEnd = ops::kSliceEnd;
  const Scope layer = scope.VariableScope(name);
  const std::vector<Output> parts =
      ops::Split(layer, ProjectAll(layer, x, heads, options), 2, {heads.queries, heads.keys, heads.keys});
  if (parts.size() != 3) return {};
  Output q = parts[0], k = parts[1];
  const Output steps = ops::Squeeze(layer, ops::StridedSlice(layer, x, {0, 0, 0}, {kEnd, kEnd, 1}), {2});  // [N, T]
  if (options.rotary) {
    const Output positions = PositionsAfter(layer, past, steps);
    q = RotateAt(layer, q, positions);
    k = RotateAt(layer, k, positions);
  }
  // The new keys end where the queries do, so the causal rule hides later ones; the mask hides the unused cache.
  const Output used = ops::SequenceMask(layer, cached_keys, past);  // [N, S]
  const Output all_new = ops::Cast(layer, ops::OnesLike(layer, steps), DType::kBool);
  const Output mask = ops::Concat(layer, {used, all_new}, 1);
  const Output mixed = ops::Attention(
      layer, q, ops::Concat(layer, {cached_keys, k}, 1), ops::Concat(layer, {cached_values, parts[2]}, 1),
      {.causal = true, .mask = ops::ExpandDims(layer, ops::ExpandDims(layer, mask, 1), 1)});
  return {ProjectBack(layer, mixed, x, options), k, parts[2]};
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
  return Dropped(layer, ops::ReshapeLike(layer, y, x), options);
}

Output EncoderLayer(OpScope scope, absl::string_view name, Output x, const EncoderLayerOptions& options) {
  const Scope layer = scope.VariableScope(name);
  const auto normalised = [&](absl::string_view norm, Output of, bool here) {
    return here ? LayerNorm(layer, norm, of, options.epsilon) : of;
  };
  const bool first = options.norm_first;
  const Output attended = MultiHeadAttention(layer, "attention", normalised("attention_norm", x, first),
                                             {.heads = options.heads,
                                              .causal = options.causal,
                                              .mask = options.mask,
                                              .dropout = options.dropout,
                                              .training = options.training,
                                              .weights = options.weights,
                                              .output_weights = options.weights});
  if (!attended.valid()) return Output();
  x = normalised("attention_norm", ops::Add(layer, x, attended), !first);
  const Output transformed = MlpBlock(layer, "mlp", normalised("mlp_norm", x, first),
                                      {.hidden = options.hidden,
                                       .approximate_gelu = options.approximate_gelu,
                                       .dropout = options.dropout,
                                       .training = options.training,
                                       .weights = options.weights,
                                       .output_weights = options.weights});
  return normalised("mlp_norm", ops::Add(layer, x, transformed), !first);
}

}  // namespace belfry::models
