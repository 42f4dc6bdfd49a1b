#include "ops/simd/outer_products_impl.h"

#include <algorithm>

namespace belfry::ops::simd {
namespace {

template <class C>
constexpr int64_t kLanes = Vector<C>::kLanes;
// Columns of b in a panel.
template <class C>
constexpr int64_t kWidth = kProductWidth* kLanes<C>;
// Columns of a that are multiplied with a panel of b while it is in the L1 cache. They stay in the L2 cache.
constexpr int64_t kColumns = 16 * kProductRows;

int64_t Units(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
int64_t RoundUp(int64_t n, int64_t unit) { return Units(n, unit) * unit; }

}  // namespace

// a is in blocks [capacity_, kProductRows], the last of which may have fewer columns, and b in panels [capacity_,
// kWidth].
template <class C>
int64_t OuterProducts<C>::Elements(int64_t m, int64_t n, int64_t rows) {
  return rows * (RoundUp(m, 16) + RoundUp(n, kWidth<C>));
}

template <class C>
OuterProducts<C>::OuterProducts(int64_t m, int64_t n, int64_t rows, C* memory)
    : m_(m), n_(n), capacity_(rows), a_(memory), b_(memory + rows * RoundUp(m, 16)) {}

template <class C>
void OuterProducts<C>::Add(const C* a, const C* b) {
  C* to = a_ + rows_ * kProductRows;
  int64_t i = 0;
  for (; i + kProductRows <= m_; i += kProductRows, to += capacity_ * kProductRows) {
    for (int j = 0; j < kProductRows; ++j) to[j] = a[i + j];
  }
  std::copy_n(a + i, m_ - i, a_ + i * capacity_ + rows_ * (m_ - i));
  to = b_ + rows_ * kWidth<C>;
  int64_t j = 0;
  for (; j + kWidth<C> <= n_; j += kWidth<C>, to += capacity_ * kWidth<C>) {
    for (int v = 0; v < kProductWidth; ++v) {
      Vector<C>::Store(Vector<C>::Load(b + j + v * kLanes<C>), to + v * kLanes<C>);
    }
  }
  if (j < n_) std::fill(std::copy_n(b + j, n_ - j, to), to + kWidth<C>, C(0));
  ++rows_;
}

template <class C>
void OuterProducts<C>::AddTo(C* c, int64_t c_row) {
  for (int64_t first = 0; first < m_; first += kColumns) {
    for (int64_t j = 0; j < n_; j += kWidth<C>) {
      for (int64_t i = first; i < std::min(first + kColumns, m_); i += kProductRows) {
        AddTile(a_ + i * capacity_, b_ + j * capacity_, std::min<int64_t>(kProductRows, m_ - i),
                std::min(kWidth<C>, n_ - j), c + i * c_row + j, c_row);
      }
    }
  }
  rows_ = 0;
}

template <class C>
void OuterProducts<C>::AddTile(const C* a, const C* b, int64_t height, int64_t width, C* c, int64_t c_row) const {
  Product product{.m = height,
                  .k = rows_,
                  .vectors = (width + kLanes<C> - 1) / kLanes<C>,
                  .a_row = 1,
                  .a_step = height,
                  .b_row = kWidth<C>,
                  .b_vector = kLanes<C>,
                  .c_row = c_row,
                  .c_vector = kLanes<C>};
  if (width % kLanes<C> == 0) return MultiplyAndAdd(product, a, b, c);
  // Whole registers of sums would reach beyond the row.
  alignas(64) C sums[kProductRows * kWidth<C>];
  product.c_row = kWidth<C>;
  Multiply(product, a, b, sums);
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) c[i * c_row + j] += sums[i * kWidth<C> + j];
  }
}

template <class C>
OuterProductBands<C>::OuterProductBands(int64_t m, int64_t n, int64_t k, int64_t threads)
    : m_(m), n_(n), rows_(std::min(k, kProductDepth)) {
  const int64_t units = m > n ? Units(m, kProductRows) : Units(n, kWidth<C>);
  count_ = std::clamp<int64_t>(units, 1, threads);
  const int64_t most = Units(units, count_);
  elements_ = m > n ? OuterProducts<C>::Elements(most * kProductRows, n, rows_)
                    : OuterProducts<C>::Elements(m, most * kWidth<C>, rows_);
  elements_ = RoundUp(elements_, 16);
}

template <class C>
auto OuterProductBands<C>::At(int64_t band) const -> Band {
  const int64_t unit = m_ > n_ ? kProductRows : kWidth<C>, length = std::max(m_, n_), units = Units(length, unit);
  const int64_t begin = std::min(units * band / count_ * unit, length);
  const int64_t end = std::min(units * (band + 1) / count_ * unit, length);
  return m_ > n_ ? Band{begin, end - begin, 0, n_} : Band{0, m_, begin, end - begin};
}

template class OuterProductBands<float>;
template class OuterProductBands<double>;
template class OuterProducts<float>;
template class OuterProducts<double>;

}  // namespace belfry::ops::simd
