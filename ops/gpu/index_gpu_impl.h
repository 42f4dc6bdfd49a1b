// Index arithmetic in device code. Only for .cu files.
#pragma once

#include <cstdint>

#include "framework/device/cuda/launch.h"
#include "ops/gpu/divider_impl.h"

namespace belfry::ops {

// Maps element i of an array with up to kMaxAxes axes to its offsets in `operands` other arrays.
template <int operands>
struct GpuStrides {
  static constexpr int kMaxAxes = 16;
  struct Axis {
    Divider extent;  // prepared for the number of all elements
    int64_t stride[operands] = {};
  };
  int axes = 0;
  Axis axis[kMaxAxes];

  // Index is uint32_t if CountsIn32Bits(number of elements), otherwise int64_t.
  template <class Index>
  BELFRY_GPU void Find(Index i, int64_t (&at)[operands]) const {
    for (int k = 0; k < operands; ++k) at[k] = 0;
    for (int a = axes; a-- > 0;) {
      const auto along = static_cast<int64_t>(a == 0 ? i : axis[a].extent.Split(i));
      for (int k = 0; k < operands; ++k) at[k] += along * axis[a].stride[k];
    }
  }
};

}  // namespace belfry::ops
