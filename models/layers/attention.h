// Layers of transformers. The rules of layers.h hold; x is a batch of sequences, [N, T, C], of which C is known and N
// or T may be unknown.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"
#include "framework/graph/variable.h"
#include "ops/attention.h"

namespace belfry::models {

struct MultiHeadAttentionOptions {
  int64_t heads = 8;     // of queries; divides C
  int64_t kv_heads = 0;  // of keys and values, each for heads / kv_heads heads of queries; 0: as many as heads
  bool causal = false;   // hide later positions
  Output mask = {};      // see ops::AttentionOptions
  bool rotary = false;   // rotate queries and keys by their positions, with `rotation`, whose `heads` is ignored
  ops::RotaryOptions rotation = {};
  double dropout = 0;  // rate of dropout of the result, in training
  bool training = true;
  bool use_bias = true;
  Initializer weights = GlorotUniformInitializer();
  Initializer output_weights = GlorotUniformInitializer();
};
// Self-attention of x [N, T, C] in heads of width D = C / heads: a projection to queries, keys and values, attention,
// and a projection back to [N, T, C]. Variables: qkv/weights [C, C + 2 kv_heads D] and qkv/biases, output/weights [C,
// C] and output/biases.
Output MultiHeadAttention(OpScope scope, absl::string_view name, Output x,
                          const MultiHeadAttentionOptions& options = {});

struct CachedAttentionOutputs {
  Output y;             // [N, T, C]
  Output keys, values;  // of x, [N, T, kv_heads, D], for the cache of the next step
};
// The same for positions that follow others, whose keys and values are kept: x[n, t] is at position past[n] + t and
// sees cached_keys[n, :past[n]], cached_values[n, :past[n]], and x[n, :t + 1]; what lies behind, be it NaN, is without
// effect. cached_* are [N, S, kv_heads, D] in x's dtype, `past` is int32 [N], from 0 to S. Variables and results are
// MultiHeadAttention's.
// The options causal, mask and dropout are ignored, and `rotation` must have its defaults.
CachedAttentionOutputs CachedAttention(OpScope scope, absl::string_view name, Output x, Output cached_keys,
                                       Output cached_values, Output past,
                                       const MultiHeadAttentionOptions& options = {});

struct MlpBlockOptions {
  int64_t hidden = 0;            // 0: 4 C
  bool approximate_gelu = true;  // the form with tanh (ops::Gelu)
  double dropout = 0;            // rate of dropout of the result, in training
  bool training = true;
  bool use_bias = true;
  Initializer weights = GlorotUniformInitializer();
  Initializer output_weights = GlorotUniformInitializer();
};
// Two dense layers around a GELU: x [..., C] gives [..., C]. Variables: hidden/weights [C, hidden] and hidden/biases,
// output/weights [hidden, C] and output/biases.
Output MlpBlock(OpScope scope, absl::string_view name, Output x, const MlpBlockOptions& options = {});

}  // namespace belfry::models
