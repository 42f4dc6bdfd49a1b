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

// Attention from x [N, T, C] to `memory` [N, S, M], as of a decoder to what an encoder made: queries of x, keys and
// values of memory; gives [N, T, C]. A mask hides parts of the memory. Variables: query/weights [C, C], memory/weights
// [M, 2 kv_heads D], output/weights [C, C], and biases of each. `rotary` and `causal` are errors.
Output CrossAttention(OpScope scope, absl::string_view name, Output x, Output memory,
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

struct EncoderLayerOptions {
  int64_t heads = 8;        // divides C
  int64_t hidden = 0;       // width of the MLP; 0: 4 C
  bool causal = false;      // hide later positions
  Output mask = {};         // see ops::AttentionOptions; of padding: SequenceMask as [N, 1, 1, T]
  bool norm_first = false;  // normalise what attention and the MLP read; otherwise the sums after them (Vaswani et al.)
  double dropout = 0;       // rate of dropout of both results, in training
  bool training = true;
  bool approximate_gelu = false;
  double epsilon = 1e-5;  // of the norms
  Initializer weights = GlorotUniformInitializer();
};
// A layer of a transformer's encoder, x [N, T, C] to [N, T, C]: MultiHeadAttention and MlpBlock, each with a residual
// connection and a LayerNorm. With `causal`, a layer of a decoder. Variables: those of the layers attention,
// attention_norm, mlp and mlp_norm.
Output EncoderLayer(OpScope scope, absl::string_view name, Output x, const EncoderLayerOptions& options = {});

// The sines and cosines of the positions of x [N, T, C], for an even C, as [1, T, C] in x's dtype (Vaswani et al.,
// 2017, section 3.5): at position t, channel 2 i is sin(t / 10000^(2 i / C)), and 2 i + 1 the cosine of it. Add it to
// the embeddings of tokens. T may be unknown.
Output SinusoidalPositions(OpScope scope, Output x);

}  // namespace belfry::models
