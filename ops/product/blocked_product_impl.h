// Matrix products of floating-point numbers without a library.
#pragma once

#include <cstdint>

#include "framework/graph/kernel.h"
#include "ops/common/compute_impl.h"
#include "ops/simd/outer_products_impl.h"

namespace belfry::ops {

// Below this number of multiplications a library's call, or packing, costs more than the product.
inline constexpr int64_t kSmallProduct = 4096;

// c [m, n] = op(a) [m, k] op(b) [k, n], row-major and contiguous, plus a bias [n] for each row. A transposed a is
// stored as [k, m], a transposed b as [n, k]. T is float, double, or a 16-bit float: those are converted as a and b are
// packed, summed in float, and rounded once.
//
// The bits of c do not depend on the number of threads: each element is summed by one thread, in ascending order over
// blocks of k. As in Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008), b is copied
// into panels that are as wide as a product in registers (simd/product_impl.h), of which a block of k stays in the L1
// cache, and blocks of a are copied, too, unless few panels read them.
template <class T>
class BlockedProduct {
 public:
  using C = Compute<T>;

  // Runs on up to ParallelThreads() threads, those of the thread that makes it.
  BlockedProduct(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b);

  int64_t workspace_elements() const;
  // `workspace` has workspace_elements() elements and the alignment of a workspace. Without a `bias` it is null.
  void Run(const T* a, const T* b, const T* bias, T* c, C* workspace) const;
  // The same in two parts, for a b that is that of many calls. `packed` has packed_elements() elements, and is aligned
  // like a workspace, which has packed_workspace_elements().
  void Pack(const T* b, C* packed) const;
  void RunPacked(const T* a, const C* packed, const T* bias, T* c, C* workspace) const;
  int64_t packed_elements() const;
  int64_t packed_workspace_elements() const;

 private:
  void PackPanel(const T* b, int64_t panel, int64_t p, int64_t depth, C* to) const;
  const C* PackBlock(const T* a, int64_t row, int64_t rows, int64_t p, int64_t depth, C* packed) const;
  void RunTask(int64_t task, const T* a, const T* b, const C* packed, const T* bias, T* c, C* own, C* scratch) const;
  void RunTasks(const T* a, const T* b, const C* packed, const T* bias, T* c, C* workspace) const;
  // True if c is computed as a sum of outer products of rows of a and b, which a transposed a has as they are.
  bool SumsRows() const;
  void RunRows(const T* a, const T* b, const T* bias, T* c, C* workspace) const;

  int64_t m_, n_, k_;
  bool transpose_a_, transpose_b_;
  int64_t rows_, panels_;            // rows of a task, panels of b
  int64_t row_tasks_, panel_tasks_;  // tasks are a grid of these
  int64_t threads_;
  int64_t depth_, row_;  // of a block of k, and from one row of a copied block of a to the next
  simd::OuterProductBands<C> bands_;
  int64_t panel_, block_, sums_;  // elements of workspace for each thread; panel_ is 0 if all of b is packed first
};

// b packed, if it is constant input `input` of a kernel (KernelSpec::Prepared); otherwise null. A product of elements
// T: BlockedProduct<T>, or TileProduct.
template <class T, class Product>
const typename Product::C* PackedConstant(const KernelSpec& spec, int input, const Product& product) {
  using C = typename Product::C;
  const auto pack = [&](const void* b, void* packed) {
    product.Pack(static_cast<const T*>(b), static_cast<C*>(packed));
    return true;
  };
  return static_cast<const C*>(spec.Prepared(input, static_cast<size_t>(product.packed_elements()) * sizeof(C), pack));
}

}  // namespace belfry::ops
