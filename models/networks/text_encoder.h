// Transformers that turn text into vectors, each of which depends on the whole text.
#pragma once

#include <cstdint>

#include "framework/graph/scope.h"

namespace belfry::models {

// The defaults are BERT-base's (Devlin et al., 2019).
struct TextEncoderOptions {
  int64_t vocabulary = 30'522;
  int64_t length = 512;  // the longest sequence
  int64_t types = 2;     // kinds of tokens, such as a first and a second text's
  int64_t layers = 12;
  int64_t heads = 12;      // divides width
  int64_t width = 768;     // C
  int64_t hidden = 0;      // of an MLP block; 0: 4 C
  bool pooled = true;      // TextEncoderOutputs::pooled
  double epsilon = 1e-12;  // of normalisations
  double dropout = 0;      // rate after the embedding and every block, in training
  bool training = true;
  DType dtype = DType::kFloat32;  // in which layers compute. Variables are float32 if it has 16 bits
};
struct TextEncoderOutputs {
  Output hidden;  // [N, T, C], of each token
  Output pooled;  // [N, C], of the first token, through a dense layer and tanh; invalid unless asked for
};
// The vectors of tokens [N, T], int32 or int64, of which N and T may be unknown and T is at most `length`. `mask`, bool
// [N, T], is false for padding, which no token sees; an invalid Output: there is none. `types`, int32 or int64 [N, T]
// in [0, options.types): an invalid Output: all are 0. The vectors of padding have no meaning.
//
// The result of a block is added to its input and the sum is normalised (post-LN): attention in both directions, then
// an MLP with the exact GELU. Weights start normally distributed with standard deviation 0.02, biases at 0. Variables:
// token_embedding, position_embedding, type_embedding, embedding_norm/{gamma,beta}; for each layer
// layer<i>/attention/..., layer<i>/attention_norm/..., layer<i>/mlp/..., layer<i>/mlp_norm/...
// (models/layers/attention.h), i from 0; pooler/{weights,biases}.
TextEncoderOutputs TextEncoder(OpScope scope, Output tokens, Output mask, Output types,
                               const TextEncoderOptions& options = {});

}  // namespace belfry::models
