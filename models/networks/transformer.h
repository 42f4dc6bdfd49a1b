// Transformers that predict the next token.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"

namespace belfry::models {

// The defaults are GPT-2's of 124 million parameters (Radford et al., 2019).
struct TransformerOptions {
  int64_t vocabulary = 50'257;
  int64_t length = 1024;  // the longest sequence, for learned positions
  int64_t layers = 12;
  int64_t heads = 12;    // of queries; divides width
  int64_t kv_heads = 0;  // of keys and values; 0: as many as heads
  int64_t width = 768;   // C
  int64_t hidden = 0;    // of an MLP block; 0: 4 C
  bool rotary = false;   // positions by rotation of queries and keys; otherwise a learned vector for each
  bool tied = true;      // logits are products with the embedding of tokens; otherwise there are weights of their own
  double dropout = 0;    // rate after the embedding and every block, in training
  bool training = true;
  DType dtype = DType::kFloat32;  // in which layers compute. Variables are float32 if it has 16 bits
};
// The logits [N, T, vocabulary] in `dtype` for tokens [N, T], int32 or int64. N and T may be unknown. If positions are
// learned, T is at most `length`; if it is unknown, a longer sequence fails the step on a CPU, and has no positions
// there on a GPU. A block normalises its input (pre-LN) and adds its result to it: causal attention, then an
// MLP with the approximate GELU. A last normalisation follows.
//
// Weights start normally distributed with standard deviation 0.02, those that end a block with 0.02 / sqrt(2 layers);
// biases start at 0. Variables: token_embedding, position_embedding; for each layer
// layer<i>/attention_norm/{gamma,beta}, layer<i>/attention/..., layer<i>/mlp_norm/..., layer<i>/mlp/...
// (models/layers/attention.h), i from 0; final_norm/...; logits/weights unless tied.
Output Transformer(OpScope scope, Output tokens, const TransformerOptions& options = {});

// A transformer that goes on token by token, with the keys and values of earlier ones.
struct TransformerStepOutputs {
  Output logits;                     // [N, T, vocabulary]
  std::vector<Output> keys, values;  // of the tokens: [N, T, kv_heads, width / heads], by layer
};
// The same function of tokens [N, T] that come after past[n] others, int32 [N]: those of `keys` and `values`, by layer
// [N, S, kv_heads, width / heads] in `dtype`, of which the first past[n] rows count. The results are to be put there
// after them for the next step. N, T and S may be unknown. Learned positions: past[n] + T is at most `length`; a later
// token, such as one that only fills a row up, has the last position. The variables are those of Transformer, whose
// logits these are up to rounding; there is no dropout.
TransformerStepOutputs TransformerStep(OpScope scope, Output tokens, Output past, const std::vector<Output>& keys,
                                       const std::vector<Output>& values, const TransformerOptions& options = {});

// Placeholders for the cache of TransformerStep, of one half: "<name>0", "<name>1", ... [N, S, kv_heads, width /
// heads].
std::vector<Output> CachePlaceholders(OpScope scope, absl::string_view name, int64_t n, int64_t s,
                                      const TransformerOptions& options);

}  // namespace belfry::models
