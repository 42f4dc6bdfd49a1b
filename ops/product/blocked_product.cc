#include "ops/product/blocked_product_impl.h"

#include <algorithm>
#include <type_traits>

#include "framework/base/parallel.h"
#include "ops/simd/parts_impl.h"
#include "ops/simd/product_impl.h"
#include "ops/simd/transpose_impl.h"

namespace belfry::ops {
namespace {

// Rows of a that a task multiplies with a panel while it is in the cache.
constexpr int64_t kRows = 96;
// Panels of a task that repay copying a block of a for them.
constexpr int64_t kManyPanels = 4;

template <class C>
constexpr int64_t kWidth = simd::kProductWidth* simd::Vector<C>::kLanes;

// Elements that fill whole cache lines.
int64_t Aligned(int64_t n) { return Parts(n, 16) * 16; }

// y [columns, y_row] = transpose of x [rows, x_row].
template <class T>
void CopyTransposed(const T* x, int64_t x_row, int64_t rows, int64_t columns, Compute<T>* y, int64_t y_row) {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, C>) {
    simd::TransposeBlock<C>(x, x_row, rows, columns, C(1), y, y_row);
  } else {
    constexpr int64_t kStrip = simd::Vector<C>::kLanes;
    alignas(64) C strip[kStrip * kBlock];
    for (int64_t i = 0; i < rows; i += kStrip) {
      const int64_t height = std::min(kStrip, rows - i);
      for (int64_t j = 0; j < columns; j += kBlock) {
        const int64_t width = std::min(kBlock, columns - j);
        for (int64_t row = 0; row < height; ++row) Load(x + (i + row) * x_row + j, width, strip + row * kBlock);
        simd::TransposeBlock<C>(strip, kBlock, height, width, C(1), y + j * y_row + i, y_row);
      }
    }
  }
}

// y = x + bias, rounded once; without a bias it is null.
template <class T>
void StoreSums(const float* x, int64_t n, const T* bias, T* y) {
  if (bias == nullptr) return FromFloat(x, y, n);
  alignas(64) float sum[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t size = std::min(kBlock, n - at);
    ToFloat(bias + at, sum, size);
    for (int64_t i = 0; i < size; ++i) sum[i] += x[at + i];
    FromFloat(sum, y + at, size);
  }
}

}  // namespace

// With few rows, threads share the panels instead. If all rows are one task, each block of a panel is read once, and is
// packed just before into room that stays in the cache: b then goes through memory once. Sums that are not made in c:
// of 16-bit floats all, otherwise those of a last panel that is wider than what is left of c.
template <class T>
BlockedProduct<T>::BlockedProduct(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b)
    : m_(m),
      n_(n),
      k_(k),
      transpose_a_(transpose_a),
      transpose_b_(transpose_b),
      panels_(Parts(n, kWidth<C>)),
      depth_(std::min(k, simd::kProductDepth)),
      bands_(m, n, k, ParallelThreads()) {
  row_tasks_ = Parts(m, kRows);
  rows_ = Parts(m, row_tasks_);
  panel_tasks_ = std::min(panels_, Parts(4 * ParallelThreads(), row_tasks_));
  threads_ = std::min<int64_t>(ParallelThreads(), row_tasks_ * panel_tasks_);
  panel_ = row_tasks_ == 1 ? depth_ * kWidth<C> : 0;
  const bool copies = transpose_a || kIsSixteenBit<T> || panels_ >= kManyPanels * panel_tasks_;
  // One more cache line, since rows that are a power of two apart would evict each other.
  row_ = copies ? Aligned(depth_) + 64 / static_cast<int64_t>(sizeof(C)) : k;
  block_ = copies ? rows_ * row_ : 0;
  sums_ = kIsSixteenBit<T>     ? rows_ * Parts(panels_, panel_tasks_) * kWidth<C>
          : n % kWidth<C> == 0 ? 0
                               : rows_ * kWidth<C>;
}

// The panels of b, or a block of one for each thread; then for each thread what packed_workspace_elements() has.
template <class T>
int64_t BlockedProduct<T>::workspace_elements() const {
  if (SumsRows()) return bands_.count() * bands_.elements();
  return (panel_ > 0 ? threads_ * panel_ : packed_elements()) + packed_workspace_elements();
}

template <class T>
int64_t BlockedProduct<T>::packed_elements() const {
  return panels_ * k_ * kWidth<C>;
}

// For each thread a block of a, transposed or converted, and sums.
template <class T>
int64_t BlockedProduct<T>::packed_workspace_elements() const {
  return threads_ * (block_ + sums_);
}

// Rows p to p + depth of a panel. Columns beyond n are 0.
template <class T>
void BlockedProduct<T>::PackPanel(const T* b, int64_t panel, int64_t p, int64_t depth, C* to) const {
  const int64_t first = panel * kWidth<C>, columns = std::min(kWidth<C>, n_ - first);
  if (columns < kWidth<C>) std::fill_n(to, depth * kWidth<C>, C(0));
  if (transpose_b_) return CopyTransposed(b + first * k_ + p, k_, columns, depth, to, kWidth<C>);
  const T* const from = b + p * n_ + first;
  if constexpr (std::is_same_v<T, C>) {
    using V = simd::Vector<C>;
    for (int64_t i = 0; columns == kWidth<C> && i < depth; ++i) {
      for (int j = 0; j < kWidth<C>; j += V::kLanes) V::Store(V::Load(from + i * n_ + j), to + i * kWidth<C> + j);
    }
    if (columns == kWidth<C>) return;
  }
  for (int64_t i = 0; i < depth; ++i) Load(from + i * n_, columns, to + i * kWidth<C>);
}

// A block of op(a): a itself or a copy in `packed`. Its rows are row_ apart.
template <class T>
auto BlockedProduct<T>::PackBlock(const T* a, int64_t row, int64_t rows, int64_t p, int64_t depth, C* packed) const
    -> const C* {
  if (transpose_a_) {
    CopyTransposed(a + p * m_ + row, m_, depth, rows, packed, row_);
    return packed;
  }
  if constexpr (!kIsSixteenBit<T>) {
    if (block_ == 0) return a + row * k_ + p;
  }
  for (int64_t i = 0; i < rows; ++i) Load(a + (row + i) * k_ + p, depth, packed + i * row_);
  return packed;
}

template <class T>
void BlockedProduct<T>::RunTask(int64_t task, const T* a, const T* b, const C* packed, const T* bias, T* c, C* own,
                                C* scratch) const {
  const int64_t row = task / panel_tasks_ * rows_, rows = std::min(rows_, m_ - row);
  if (rows <= 0) return;
  const int64_t part = task % panel_tasks_;
  const int64_t begin = panels_ * part / panel_tasks_, end = panels_ * (part + 1) / panel_tasks_;
  const int64_t left = begin * kWidth<C>, right = std::min(end * kWidth<C>, n_);
  C* const sums = scratch + block_;
  constexpr int64_t kLanes = simd::Vector<C>::kLanes;
  const int64_t sums_row = kIsSixteenBit<T> ? (end - begin) * kWidth<C> : kWidth<C>;
  for (int64_t p = 0; p < k_; p += depth_) {
    const int64_t depth = std::min(depth_, k_ - p);
    const C* const block = PackBlock(a, row, rows, p, depth, scratch);
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * kWidth<C>;
      simd::Product product{.m = rows,
                            .k = depth,
                            .vectors = Parts(std::min(kWidth<C>, n_ - first), kLanes),
                            .a_row = row_,
                            .b_row = kWidth<C>,
                            .b_vector = kLanes,
                            .c_row = sums_row,
                            .c_vector = kLanes};
      C* to = sums;
      if constexpr (kIsSixteenBit<T>) {
        to += first - left;
      } else if (first + kWidth<C> <= n_) {
        to = c + row * n_ + first;
        product.c_row = n_;
      }
      if (packed == nullptr) PackPanel(b, panel, p, depth, own);
      const C* const with = packed == nullptr ? own : packed + (panel * k_ + p) * kWidth<C>;
      p == 0 ? simd::Multiply(product, block, with, to) : simd::MultiplyAndAdd(product, block, with, to);
    }
  }
  for (int64_t i = row; i < row + rows; ++i) {
    const C* const from = sums + (i - row) * sums_row;
    T* const to = c + i * n_;
    if constexpr (kIsSixteenBit<T>) {
      StoreSums(from, right - left, bias == nullptr ? nullptr : bias + left, to + left);
    } else {
      const int64_t rest = right % kWidth<C>;
      std::copy_n(from, rest, to + right - rest);
      for (int64_t j = left; bias != nullptr && j < right; ++j) to[j] += bias[j];
    }
  }
}

template <class T>
void BlockedProduct<T>::Run(const T* a, const T* b, const T* bias, T* c, C* workspace) const {
  if (SumsRows()) return RunRows(a, b, bias, c, workspace);
  if (panel_ > 0) return RunTasks(a, b, nullptr, bias, c, workspace);
  Pack(b, workspace);
  RunPacked(a, workspace, bias, c, workspace + packed_elements());
}

template <class T>
void BlockedProduct<T>::Pack(const T* b, C* packed) const {
  ParallelFor(panels_, static_cast<double>(k_ * kWidth<C>) / 4, [=, this](int64_t begin, int64_t end) {
    // A few rows of b for all panels, since the parts of one panel are whole rows apart, often a power of two.
    constexpr int64_t kPackedRows = 8;
    const int64_t depth = transpose_b_ ? k_ : kPackedRows;
    for (int64_t p = 0; p < k_; p += depth) {
      for (int64_t panel = begin; panel < end; ++panel) {
        PackPanel(b, panel, p, std::min(depth, k_ - p), packed + (panel * k_ + p) * kWidth<C>);
      }
    }
  });
}

template <class T>
bool BlockedProduct<T>::SumsRows() const {
  return !kIsSixteenBit<T> && transpose_a_ && !transpose_b_;
}

template <class T>
void BlockedProduct<T>::RunRows(const T* a, const T* b, const T* bias, T* c, C* workspace) const {
  if constexpr (!kIsSixteenBit<T>) {
    const double cost = static_cast<double>(m_ * n_) * static_cast<double>(k_) / simd::Vector<C>::kLanes;
    ParallelFor(bands_.count(), cost / static_cast<double>(bands_.count()), [=, this](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto band = bands_.At(i);
        simd::OuterProducts<C> products = bands_.Products(band, workspace + i * bands_.elements());
        C* const to = c + band.row * n_ + band.column;
        for (int64_t row = 0; row < band.rows; ++row) {
          if (bias == nullptr) {
            std::fill_n(to + row * n_, band.columns, C(0));
          } else {
            std::copy_n(bias + band.column, band.columns, to + row * n_);
          }
        }
        for (int64_t p = 0; p < k_; p += bands_.rows()) {
          for (int64_t row = p; row < std::min(p + bands_.rows(), k_); ++row) {
            products.Add(a + row * m_ + band.row, b + row * n_ + band.column);
          }
          products.AddTo(to, n_);
        }
      }
    });
  }
}

template <class T>
void BlockedProduct<T>::RunPacked(const T* a, const C* packed, const T* bias, T* c, C* workspace) const {
  RunTasks(a, nullptr, packed, bias, c, workspace);
}

template <class T>
void BlockedProduct<T>::RunTasks(const T* a, const T* b, const C* packed, const T* bias, T* c, C* workspace) const {
  if (k_ == 0) {
    for (int64_t i = 0; i < m_; ++i)
      bias == nullptr ? std::fill_n(c + i * n_, n_, T(0)) : std::copy_n(bias, n_, c + i * n_);
    return;
  }
  const int64_t tasks = row_tasks_ * panel_tasks_;
  const double packing = packed == nullptr ? 0.25 : 0, lanes = simd::Vector<C>::kLanes;
  const double cost =
      (static_cast<double>(m_) / (2 * lanes) + packing) * static_cast<double>(n_ * k_) / static_cast<double>(threads_);
  const int64_t panel = packed == nullptr ? panel_ : 0;
  ParallelFor(threads_, cost, [=, this](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      C* const own = workspace + thread * (panel + block_ + sums_);
      for (int64_t task = tasks * thread / threads_; task < tasks * (thread + 1) / threads_; ++task) {
        RunTask(task, a, b, packed, bias, c, own, own + panel);
      }
    }
  });
}

template class BlockedProduct<float>;
template class BlockedProduct<double>;
template class BlockedProduct<Half>;
template class BlockedProduct<BFloat16>;

}  // namespace belfry::ops
