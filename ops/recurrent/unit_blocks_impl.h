// The operands of recurrences on CPUs in blocks of units: registers, packed weights and rows. Internal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "framework/base/parallel.h"
#include "ops/common/compute_impl.h"
#include "ops/simd/product_impl.h"
#include "ops/simd/transpose_impl.h"

namespace belfry::ops::recurrent {

// Units come in blocks of one register. Rows of units are padded to whole blocks.
template <class C>
inline constexpr int64_t kLanes = simd::Vector<C>::kLanes;
template <class C>
int64_t UnitBlocks(int64_t h) {
  return (h + kLanes<C> - 1) / kLanes<C>;
}
template <class C>
int64_t PaddedUnits(int64_t h) {
  return UnitBlocks<C>(h) * kLanes<C>;
}

// Parts of registers, as arrays of kLanes elements.
template <class T>
void LoadUnits(const T* from, int64_t count, Compute<T>* to) {
  using C = Compute<T>;
  if (std::is_same_v<T, C> && count == kLanes<C>) {
    Load(from, kLanes<C>, to);
  } else {
    Load(from, count, to);
    std::fill(to + count, to + kLanes<C>, C(0));
  }
}
template <class T>
void StoreUnits(const Compute<T>* from, int64_t count, T* to) {
  using C = Compute<T>;
  if (std::is_same_v<T, C> && count == kLanes<C>) {
    Store(from, kLanes<C>, to);
  } else {
    Store(from, count, to);
  }
}

// The recurrent weights [H, gates H] in the order in which products read them. Forward: for each block of units, [H,
// gates, kLanes]. Backward, transposed: for each kBackWidth units, [gates H, kBackWidth].
template <class C>
inline constexpr int64_t kBackWidth = simd::kProductWidth* kLanes<C>;

template <class T, int gates>
void PackForward(const T* weights, int64_t h, Compute<T>* packed) {
  using C = Compute<T>;
  const int64_t panel = h * gates * kLanes<C>;
  ParallelFor(UnitBlocks<C>(h), static_cast<double>(panel), [=](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < h * gates; ++row) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t unit = block * kLanes<C>, count = std::min(kLanes<C>, h - unit);
        LoadUnits(weights + row * h + unit, count, packed + block * panel + row * kLanes<C>);
      }
    }
  });
}
template <class T, int gates>
void PackBackward(const T* weights, int64_t h, Compute<T>* packed) {
  using C = Compute<T>;
  constexpr int64_t kWidth = kBackWidth<C>;
  const int64_t columns = gates * h, panel = columns * kWidth;
  ParallelFor((h + kWidth - 1) / kWidth, static_cast<double>(panel), [=](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t units = std::min(kWidth, h - p * kWidth);
      const T* const from = weights + p * kWidth * columns;
      C* const to = packed + p * panel;
      if (units < kWidth) std::fill_n(to, panel, C(0));
      if constexpr (std::is_same_v<T, C>) {
        simd::TransposeBlock<C>(from, columns, units, columns, 1, to, kWidth);
      } else {
        for (int64_t i = 0; i < units; ++i) {
          for (int64_t j = 0; j < columns; ++j) to[j * kWidth + i] = static_cast<C>(from[i * columns + j]);
        }
      }
    }
  });
}

// c [m, vectors] = or += a [m, k] b [k, vectors].
template <class C, bool add>
void Product(int64_t m, int64_t vectors, const C* a, int64_t a_row, int64_t k, const C* b, int64_t b_row, C* c,
             int64_t c_row) {
  const simd::Product product{.m = m,
                              .k = k,
                              .vectors = vectors,
                              .a_row = a_row,
                              .b_row = b_row,
                              .b_vector = kLanes<C>,
                              .c_row = c_row,
                              .c_vector = kLanes<C>};
  add ? simd::MultiplyAndAdd(product, a, b, c) : simd::Multiply(product, a, b, c);
}

template <class T>
void LoadRow(const T* from, int64_t h, Compute<T>* to) {
  if (from == nullptr) {
    std::fill_n(to, h, Compute<T>(0));
  } else {
    Load(from, h, to);
  }
}

}  // namespace belfry::ops::recurrent
