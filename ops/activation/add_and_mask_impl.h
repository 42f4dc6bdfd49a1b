// Sums of two, masked as by the gradient of a ReLU, on CPUs. Internal.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/common/compute_impl.h"
#include "ops/common/op_rules_impl.h"

namespace belfry::ops {

// dx[i] = dy[i], with the addend if there is one, where y[i] > 0 or there is no y; else 0. dx may be any of the others.
template <class T>
void AddAndMask(int64_t n, const T* dy, const T* addend, const T* y, T* dx) {
  using C = Compute<T>;
  ParallelBlocks(n, 3, [=](int64_t begin, int64_t end) {
    alignas(64) C sum_block[kBlock], addend_block[kBlock], y_block[kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t size = std::min(kBlock, end - at);
      const C* const wide = Widened(dy + at, sum_block, size);
      const C* const wide_y = y == nullptr ? nullptr : Widened(y + at, y_block, size);
      C* const sum = Wide(dx + at, sum_block);
      const C* const wide_addend = addend == nullptr ? nullptr : Widened(addend + at, addend_block, size);
      for (int64_t i = 0; i < size; ++i) sum[i] = addend == nullptr ? wide[i] : wide[i] + wide_addend[i];
      if (y != nullptr) {
        for (int64_t i = 0; i < size; ++i) sum[i] = wide_y[i] > 0 ? sum[i] : C(0);
      }
      Narrowed(sum, dx + at, size);
    }
  });
}

}  // namespace belfry::ops
