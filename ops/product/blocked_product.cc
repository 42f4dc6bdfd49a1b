#include "ops/product/blocked_product_impl.h"

#include <algorithm>

#include "framework/base/parallel.h"
#include "ops/simd/product_impl.h"
#include "ops/simd/transpose_impl.h"

namespace belfry::ops {
namespace {

// Rows of a that a task multiplies with a panel while it is in the cache.
constexpr int64_t kRows = 96;
// A block of a panel has this many bytes.
constexpr int64_t kPanelBytes = 16 * 1024;

template <class C>
constexpr int64_t kWidth = simd::kProductWidth* simd::Vector<C>::kLanes;
template <class C>
constexpr int64_t kDepth = kPanelBytes / (kWidth<C> * static_cast<int64_t>(sizeof(C)));

int64_t Parts(int64_t n, int64_t size) { return (n + size - 1) / size; }
// Elements that fill whole cache lines.
int64_t Aligned(int64_t n) { return Parts(n, 16) * 16; }

}  // namespace

// With few rows, threads share the panels instead.
template <class C>
BlockedProduct<C>::BlockedProduct(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b)
    : m_(m),
      n_(n),
      k_(k),
      transpose_a_(transpose_a),
      transpose_b_(transpose_b),
      panels_(Parts(n, kWidth<C>)),
      depth_(std::min(k, kDepth<C>)) {
  row_tasks_ = Parts(m, kRows);
  rows_ = Parts(m, row_tasks_);
  panel_tasks_ = std::min(panels_, Parts(4 * ParallelThreads(), row_tasks_));
  threads_ = std::min<int64_t>(ParallelThreads(), row_tasks_ * panel_tasks_);
  block_ = transpose_a ? Aligned(rows_ * depth_) : 0;
  tile_ = n % kWidth<C> == 0 ? 0 : rows_ * kWidth<C>;
}

// The panels of b, then for each thread a block of transposed a and a tile of c.
template <class C>
int64_t BlockedProduct<C>::workspace_elements() const {
  return panels_ * k_ * kWidth<C> + threads_ * (block_ + tile_);
}

// Columns beyond n are 0.
template <class C>
void BlockedProduct<C>::PackPanel(const C* b, int64_t panel, C* packed) const {
  const int64_t first = panel * kWidth<C>, columns = std::min(kWidth<C>, n_ - first);
  C* const to = packed + panel * k_ * kWidth<C>;
  if (columns < kWidth<C>) std::fill_n(to, k_ * kWidth<C>, C(0));
  if (transpose_b_) return simd::TransposeBlock<C>(b + first * k_, k_, columns, k_, C(1), to, kWidth<C>);
  for (int64_t p = 0; p < k_; ++p) std::copy_n(b + p * n_ + first, columns, to + p * kWidth<C>);
}

template <class C>
void BlockedProduct<C>::RunTask(int64_t task, const C* a, const C* packed, C* c, C* scratch) const {
  const int64_t row = task / panel_tasks_ * rows_, rows = std::min(rows_, m_ - row);
  if (rows <= 0) return;
  const int64_t part = task % panel_tasks_;
  C* const tile = scratch + block_;
  constexpr int64_t kLanes = simd::Vector<C>::kLanes;
  for (int64_t p = 0; p < k_; p += depth_) {
    const int64_t depth = std::min(depth_, k_ - p);
    const C* block = a + row * k_ + p;
    if (transpose_a_) {
      simd::TransposeBlock<C>(a + p * m_ + row, m_, depth, rows, C(1), scratch, depth_);
      block = scratch;
    }
    for (int64_t panel = panels_ * part / panel_tasks_; panel < panels_ * (part + 1) / panel_tasks_; ++panel) {
      const int64_t first = panel * kWidth<C>, columns = std::min(kWidth<C>, n_ - first);
      const bool whole = columns == kWidth<C>;
      C* const to = c + row * n_ + first;
      const simd::Product product{.m = rows,
                                  .k = depth,
                                  .vectors = Parts(columns, kLanes),
                                  .a_row = transpose_a_ ? depth_ : k_,
                                  .b_row = kWidth<C>,
                                  .b_vector = kLanes,
                                  .c_row = whole ? n_ : kWidth<C>,
                                  .c_vector = kLanes};
      const C* const with = packed + (panel * k_ + p) * kWidth<C>;
      if (whole) {
        p == 0 ? simd::Multiply(product, block, with, to) : simd::MultiplyAndAdd(product, block, with, to);
        continue;
      }
      for (int64_t i = 0; p > 0 && i < rows; ++i) std::copy_n(to + i * n_, columns, tile + i * kWidth<C>);
      p == 0 ? simd::Multiply(product, block, with, tile) : simd::MultiplyAndAdd(product, block, with, tile);
      for (int64_t i = 0; i < rows; ++i) std::copy_n(tile + i * kWidth<C>, columns, to + i * n_);
    }
  }
}

template <class C>
void BlockedProduct<C>::Run(const C* a, const C* b, C* c, C* workspace) const {
  if (k_ == 0) return static_cast<void>(std::fill_n(c, m_ * n_, C(0)));
  ParallelFor(panels_, static_cast<double>(k_ * kWidth<C>) / 4, [=, this](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) PackPanel(b, panel, workspace);
  });
  const int64_t tasks = row_tasks_ * panel_tasks_;
  const double cost = static_cast<double>(m_) * static_cast<double>(n_ * k_) /
                      static_cast<double>(2 * simd::Vector<C>::kLanes * threads_);
  C* const scratch = workspace + panels_ * k_ * kWidth<C>;
  ParallelFor(threads_, cost, [=, this](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      C* const own = scratch + thread * (block_ + tile_);
      for (int64_t task = tasks * thread / threads_; task < tasks * (thread + 1) / threads_; ++task) {
        RunTask(task, a, workspace, c, own);
      }
    }
  });
}

template class BlockedProduct<float>;
template class BlockedProduct<double>;

}  // namespace belfry::ops
