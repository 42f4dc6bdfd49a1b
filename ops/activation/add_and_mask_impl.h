// Sums of two, masked as by the gradient of a ReLU, on CPUs. Internal.
#pragma once

#include <cstdint>

#include "ops/common/compute_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {

// dx[i] = dy[i], with the addend if there is one, where y[i] > 0 or there is no y; else 0. dx may be any of the others.
template <class T>
void AddAndMask(int64_t n, const T* dy, const T* addend, const T* y, T* dx) {
  using V = simd::Vector<Compute<T>>;
  const auto value = [=](const auto& load) {
    auto sum = load(dy);
    if (addend != nullptr) sum += load(addend);
    return y == nullptr ? sum : V::Choose(load(y) > 0, sum, typename V::Lanes{});
  };
  ParallelBlocks(n, 3, [=](int64_t begin, int64_t end) {
    int64_t at = begin;
    for (; at + V::kLanes <= end; at += V::kLanes) {
      simd::Store(value([=](const T* x) { return simd::Load(x + at); }), dx + at);
    }
    if (at < end) simd::Store(value([=](const T* x) { return simd::Load(x + at, end - at); }), dx + at, end - at);
  });
}

}  // namespace belfry::ops
