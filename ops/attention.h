// Attention and rotary position embeddings.
//
// Tensors are float32, float64, float16 or bfloat16; the 16-bit dtypes are computed in float32. N is the batch, T the
// number of queries, S the number of keys, D the width of a head. The heads follow the position, [N, T, H, D], because
// that is how a projection [N, T, H D] lies in memory: a reshape, and no transpose, makes one of the other.
#pragma once

#include <cstdint>

#include "framework/graph/scope.h"

namespace belfry::ops {

struct AttentionOptions {
  // Query i sees keys up to i + S - T: both end at the same position, as when the keys of earlier positions are kept.
  bool causal = false;
  double scale = 0;  // 0: 1 / sqrt(D)
  // Optional: bool, where false hides a key from a query, or in q's dtype, added to the scores, where -infinity
  // hides; a finite number, be it the lowest, does not: keys that are all masked by the same share the weight.
  // Its shape broadcasts to [N, H, T, S]. No gradient flows to it.
  Output mask = {};
};
// Scaled dot-product attention (Vaswani et al., 2017) of q [N, T, H, D] with k and v [N, S, G, D], where G divides H:
//   y[n, i, h] = sum over j of softmax_j(scale q[n, i, h] . k[n, j, g] + mask[n, h, i, j]) v[n, j, g],  g = h G / H
// gives y [N, T, H, D]. Fewer heads of keys than of queries make it grouped-query attention (Ainslie et al., 2023).
// Computed in blocks (Dao et al., "FlashAttention", 2022), so its memory grows with T + S and not with their product,
// forward and backward. A query that sees no key, or only scores of -infinity, gives 0 and receives no gradient. An
// infinite or NaN number of v may reach queries that do not see it, and one of k their gradients; not the results,
// however, where a mask whose axis T has the extent 1 hides the key, as behind the end of a cache. Differentiable with
// respect to q, k and v; a second derivative keeps all scores in memory.
Output Attention(OpScope scope, Output q, Output k, Output v, const AttentionOptions& options = {});

// The same of one tensor qkv [N, T, H + 2 G, D] with the heads of q, k and v in this order, and G = kv_heads. It reads
// them in place, and its gradient is one tensor, so nothing is split or joined.
Output SelfAttention(OpScope scope, Output qkv, int64_t kv_heads, const AttentionOptions& options = {});

struct RotaryOptions {
  double base = 10'000;
  int64_t width = 0;         // rotated elements of each head, an even number; 0: all. The others pass
  int64_t heads = 0;         // rotated heads, the first ones; 0: all. Of a qkv: the heads of q and k
  int64_t offset = 0;        // position of x[:, 0]
  bool interleaved = false;  // pairs of neighbours (2 i, 2 i + 1); otherwise (i, i + width / 2)
};
// Rotary position embedding (Su et al., "RoFormer", 2021) of x [N, T, H, D]: the pair i of a head at position t is
// rotated by the angle t base^(-2 i / width). The scores of attention between rotated queries and keys depend on the
// difference of their positions. By default pairs are as in GPT-NeoX and LLaMA.
Output Rotary(OpScope scope, Output x, const RotaryOptions& options = {});

}  // namespace belfry::ops
