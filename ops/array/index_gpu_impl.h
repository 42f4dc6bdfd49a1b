// Finding where elements lie, in device code. Only for .cu files.
#pragma once

#include <cstdint>
#include <limits>

#include "framework/device/cuda/launch.h"

namespace belfry::ops {

// Whether elements [0, n) are counted with 32 bits, so that GpuDivider serves.
inline bool CountsIn32Bits(int64_t n) { return n <= std::numeric_limits<int32_t>::max(); }

// n / divisor for n < 2^31 by a multiplication and a shift, after Granlund and Montgomery, "Division by invariant
// integers using multiplication" (1994).
struct GpuDivider {
  uint32_t factor = 1, shift = 0;

  GpuDivider() = default;
  // One by a divisor that is not in [1, 2^31] may be made, but must not be used.
  explicit GpuDivider(int64_t divisor) {
    if (divisor < 1) return;
    while (shift < 31 && (int64_t{1} << shift) < divisor) ++shift;
    factor = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - static_cast<uint64_t>(divisor))) /
                                       static_cast<uint64_t>(divisor) +
                                   1);
  }
  BELFRY_GPU uint32_t Divide(uint32_t n) const {
    return (static_cast<uint32_t>((uint64_t{n} * factor) >> 32) + n) >> shift;
  }
};

// n / divisor for either type that counts elements.
BELFRY_GPU inline uint32_t Quotient(uint32_t n, const GpuDivider& divider, int64_t) { return divider.Divide(n); }
BELFRY_GPU inline uint64_t Quotient(uint64_t n, const GpuDivider&, int64_t divisor) {
  return n / static_cast<uint64_t>(divisor);
}

// Where element i of an array with up to kMaxAxes axes lies in each of `operands` others.
template <int operands>
struct GpuStrides {
  static constexpr int kMaxAxes = 16;
  struct Axis {
    GpuDivider divider;
    int64_t extent = 1;
    int64_t stride[operands] = {};
  };
  int axes = 0;
  Axis axis[kMaxAxes];

  // Index is uint32_t where CountsIn32Bits(all elements), else uint64_t.
  template <class Index>
  BELFRY_GPU void Find(Index i, int64_t (&at)[operands]) const {
    for (int k = 0; k < operands; ++k) at[k] = 0;
    for (int a = axes; a-- > 0;) {
      const Index next = a == 0 ? 0 : Quotient(i, axis[a].divider, axis[a].extent);
      const auto along = static_cast<int64_t>(i - next * static_cast<Index>(axis[a].extent));
      for (int k = 0; k < operands; ++k) at[k] += along * axis[a].stride[k];
      i = next;
    }
  }
};

}  // namespace belfry::ops
