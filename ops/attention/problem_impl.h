// The sizes of one attention, shared by its kernels. Internal.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "framework/graph/kernel.h"

namespace belfry::ops::attention {

inline constexpr double kLog2E = 1.4426950408889634074;

// Query i attends to keys [0, VisibleTo(i)). Strides are in elements.
struct Problem {
  int64_t n = 0, t = 0, s = 0;  // batch, queries, keys
  int64_t h = 0, g = 0, d = 0;  // heads of queries and of keys, width of a head
  int64_t q_row = 0, k_row = 0, y_row = 0;
  std::array<int64_t, 4> mask{};  // strides along [n, h, t, s]; 0 where the mask is broadcast
  bool masked = false, causal = false;
  double scale = 1;

  constexpr int64_t VisibleTo(int64_t query) const { return causal ? std::clamp<int64_t>(query + 1 + s - t, 0, s) : s; }
  constexpr int64_t QAt(int64_t batch, int64_t query, int64_t head) const {
    return (batch * t + query) * q_row + head * d;
  }
  constexpr int64_t KAt(int64_t batch, int64_t key, int64_t group) const {
    return (batch * s + key) * k_row + group * d;
  }
  constexpr int64_t YAt(int64_t batch, int64_t query, int64_t head) const {
    return (batch * t + query) * y_row + head * d;
  }
  constexpr int64_t MaskAt(int64_t batch, int64_t head, int64_t query, int64_t key) const {
    return batch * mask[0] + head * mask[1] + query * mask[2] + key * mask[3];
  }
  constexpr int64_t RowAt(int64_t batch, int64_t query, int64_t head) const { return (batch * h + head) * t + query; }
  // Multiply-adds of one product of all queries with all keys that they see.
  double Products() const {
    const auto keys = static_cast<double>(s), skipped = static_cast<double>(std::min(t, s) - 1) / 2;
    return static_cast<double>(n * h * t * d) * (causal ? std::max(keys - skipped, 1.0) : keys);
  }
};

// True if the log-sum-exp of a query's scores is so large, as where all its keys are masked by -1e9, that rounding it
// loses the sum: the gradient then takes the largest score and the sum from the scores again.
template <class C>
constexpr bool LosesSum(C log_sum_exp) {
  constexpr C kMaxExponent = static_cast<C>(int64_t{1} << std::numeric_limits<C>::digits / 2);
  return log_sum_exp > kMaxExponent || log_sum_exp < -kMaxExponent;
}

// A mask in units of log(2). A finite one stays finite, because only -infinity hides: it may be the lowest number, by
// which many models mask.
template <class C>
constexpr C MaskInUnits(C mask) {
  constexpr C kMaxFinite = std::numeric_limits<C>::max();
  const C units = mask * static_cast<C>(kLog2E);
  return mask - mask == 0 ? std::clamp(units, -kMaxFinite, kMaxFinite) : units;
}

// A score with a mask, in units of log(2). What hides a key hides all of it, be the score infinite or NaN.
template <class C>
constexpr C Masked(C score, C mask) {
  constexpr C kHides = -std::numeric_limits<C>::infinity();
  return mask == kHides ? kHides : score + MaskInUnits(mask);
}

// Inputs q, k, v or, if `packed`, qkv; then, from index `mask_at` on, perhaps a mask.
Problem MakeProblem(const KernelSpec& spec, bool packed, size_t mask_at);

// `offset` elements behind `tensor`, which is null if it is empty; no offset may be added to a null pointer.
template <class T>
T* PartAt(T* tensor, int64_t offset) {
  return tensor == nullptr ? nullptr : tensor + offset;
}

// Pointers to the operands: q, k and v may lie in one tensor.
template <class T>
struct Operands {
  const T *q, *k, *v, *mask;

  Operands(const Problem& p, const KernelContext& context, bool packed, int mask_at)
      : q(context.input<T>(0)),
        k(packed ? PartAt(q, p.h * p.d) : context.input<T>(1)),
        v(packed ? PartAt(k, p.g * p.d) : context.input<T>(2)),
        mask(p.masked ? context.input<T>(mask_at) : nullptr) {}
};

}  // namespace belfry::ops::attention
