// Rotary position embedding: what its kernels share. Internal.
#pragma once

#include <cstdint>

#include "framework/graph/kernel.h"

namespace belfry::ops::attention {

// x viewed as [batch, positions, heads, d].
struct RotaryPlan {
  int64_t batch, positions, heads, d;
  int64_t rotated_heads, pairs, offset;
  int64_t step, next;  // from a pair's first element to that of the next pair, and to its second element
  double base;
  bool inverse;

  explicit RotaryPlan(const KernelSpec& spec) {
    const Shape& x = spec.inputs[0].shape;
    batch = x[0], positions = x[1], heads = x[2], d = x[3];
    const int64_t rotated = spec.attrs.Int("heads"), width = spec.attrs.Int("width");
    rotated_heads = rotated == 0 ? heads : rotated;
    pairs = (width == 0 ? d : width) / 2;
    offset = spec.attrs.Int("offset");
    const bool interleaved = spec.attrs.Bool("interleaved");
    step = interleaved ? 2 : 1, next = interleaved ? 1 : pairs;
    base = spec.attrs.Float("base");
    inverse = spec.attrs.Bool("inverse");
  }
};

}  // namespace belfry::ops::attention
