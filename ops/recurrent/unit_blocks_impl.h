// The operands of recurrences on CPUs: registers of units, and weights in panels. Internal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "framework/base/parallel.h"
#include "ops/common/compute_impl.h"
#include "ops/simd/product_impl.h"
#include "ops/simd/transpose_impl.h"

namespace belfry::ops::recurrent {

// Units come in blocks of one register.
template <class C>
inline constexpr int64_t kLanes = simd::Vector<C>::kLanes;
template <class C>
using Lanes = typename simd::Vector<C>::Lanes;
template <class C>
int64_t UnitBlocks(int64_t h) {
  return (h + kLanes<C> - 1) / kLanes<C>;
}

// Elements from one row of `columns` to the next: whole cache lines, and one more, since rows that are a power of two
// apart would evict each other.
template <class C>
int64_t RowOf(int64_t columns) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(C));
  return ((columns + kLine - 1) / kLine + 1) * kLine;
}

// `count` units, at most a register of them. The other lanes are 0.
template <class T>
[[gnu::noinline]] void LoadPart(const T* from, int64_t count, Compute<T>* to) {
  std::fill_n(to, kLanes<Compute<T>>, Compute<T>(0));
  Load(from, count, to);
}
template <class T>
[[gnu::noinline]] void StorePart(const Compute<T>* from, int64_t count, T* to) {
  Store(from, count, to);
}
template <class T>
[[gnu::always_inline]] inline Lanes<Compute<T>> LoadUnits(const T* from, int64_t count) {
  using C = Compute<T>;
  if (count == kLanes<C>) return simd::Load(from);
  alignas(64) C part[kLanes<C>];
  LoadPart(from, count, part);
  return simd::Vector<C>::Load(part);
}
template <class T>
[[gnu::always_inline]] inline void StoreUnits(Lanes<Compute<T>> x, int64_t count, T* to) {
  using C = Compute<T>;
  if (count == kLanes<C>) return simd::Store(x, to);
  alignas(64) C part[kLanes<C>];
  simd::Vector<C>::Store(x, part);
  StorePart(part, count, to);
}

// A matrix [k, registers] in panels of `width` registers, each [k, width, kLanes]: products read them from the first
// element to the last. Few sequences have wider panels, whose products wait less for their own sums.
template <class C>
struct Panels {
  int64_t k = 0, registers = 0, width = 0;

  Panels(int64_t k, int64_t registers, int64_t sequences)
      : k(k), registers(registers), width(sequences <= simd::kFewRows ? simd::kWideProduct : simd::kProductWidth) {}

  int64_t count() const { return (registers + width - 1) / width; }
  int64_t columns() const { return width * kLanes<C>; }
  int64_t elements() const { return count() * k * columns(); }

  // c [m, columns] = or += a [m, k] times panel `panel`.
  template <bool add>
  void Multiply(const C* packed, int64_t panel, int64_t m, const C* a, int64_t a_row, C* c, int64_t c_row) const {
    // Blocks of k stay in the L1 cache beside those of a.
    constexpr int64_t kDepth = 256;
    const C* b = packed + panel * k * columns();
    for (int64_t p = 0; p < k; p += kDepth, b += kDepth * columns()) {
      const simd::Product product{.m = m,
                                  .k = std::min(kDepth, k - p),
                                  .vectors = std::min(width, registers - panel * width),
                                  .a_row = a_row,
                                  .b_row = columns(),
                                  .b_vector = kLanes<C>,
                                  .c_row = c_row,
                                  .c_vector = kLanes<C>};
      add || p > 0 ? simd::MultiplyAndAdd(product, a + p, b, c) : simd::Multiply(product, a + p, b, c);
    }
  }
};

// Packs recurrent weights [H, gates H] for products of hidden states. Register i has gate i % gates of the units of
// block i / gates.
template <class T, int gates>
void PackForward(const T* weights, int64_t h, const Panels<Compute<T>>& panels, Compute<T>* packed) {
  using C = Compute<T>;
  // Rows of which neighbouring panels read parts of the same cache lines, soon enough to find them in the cache.
  constexpr int64_t kRows = 8;
  const int64_t columns = panels.columns();
  ParallelFor(panels.count(), static_cast<double>(h * columns), [=](int64_t begin, int64_t end) {
    for (int64_t first = 0; first < h; first += kRows) {
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t registers = std::min(panels.width, panels.registers - panel * panels.width);
        for (int64_t row = first; row < std::min(first + kRows, h); ++row) {
          C* const to = packed + (panel * h + row) * columns;
          for (int64_t j = 0; j < registers; ++j) {
            const int64_t i = panel * panels.width + j, unit = i / gates * kLanes<C>;
            const T* const from = weights + (row * gates + i % gates) * h + unit;
            simd::Vector<C>::Store(LoadUnits(from, std::min(kLanes<C>, h - unit)), to + j * kLanes<C>);
          }
        }
      }
    }
  });
}

// Packs them for products of gradients [gates H], transposed. Register i has the units of block i.
template <class T, int gates>
void PackBackward(const T* weights, int64_t h, const Panels<Compute<T>>& panels, Compute<T>* packed) {
  using C = Compute<T>;
  const int64_t width = panels.columns(), columns = gates * h, elements = columns * width;
  ParallelFor(panels.count(), static_cast<double>(elements), [=](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t units = std::min(width, h - panel * width);
      const T* const from = weights + panel * width * columns;
      C* const to = packed + panel * elements;
      if (units < width) std::fill_n(to, elements, C(0));
      if constexpr (std::is_same_v<T, C>) {
        simd::TransposeBlock<C>(from, columns, units, columns, 1, to, width);
      } else {
        for (int64_t i = 0; i < units; ++i) {
          for (int64_t j = 0; j < columns; ++j) to[j * width + i] = static_cast<C>(from[i * columns + j]);
        }
      }
    }
  });
}

// A row of units in whole blocks; zeros if `from` is null.
template <class T>
void LoadRow(const T* from, int64_t h, Compute<T>* to) {
  using C = Compute<T>;
  if (from != nullptr) Load(from, h, to);
  std::fill(to + (from == nullptr ? 0 : h), to + UnitBlocks<C>(h) * kLanes<C>, C(0));
}

}  // namespace belfry::ops::recurrent
