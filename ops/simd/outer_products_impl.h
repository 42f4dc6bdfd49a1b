// Products of a transposed matrix with another, row by row. For CPU kernels.
#pragma once

#include <cstdint>

#include "ops/simd/product_impl.h"

namespace belfry::ops::simd {

// Adds up the outer products of rows a [m] and b [n], which may lie anywhere, in an m x n matrix. C is float or double.
// Rows are first copied into the order in which registers read them, since a column of a matrix with many columns has
// each element in another page of memory. Not thread-safe.
template <class C>
class OuterProducts {
 public:
  // Takes up to `rows` rows at a time, at most kProductDepth for speed. Their products are added up in registers, in
  // the order in which they are given. `memory` has Elements() elements and is aligned to 64 bytes.
  OuterProducts(int64_t m, int64_t n, int64_t rows, C* memory);
  static int64_t Elements(int64_t m, int64_t n, int64_t rows);

  // REQUIRES: fewer than `rows` rows were given since the last AddTo.
  void Add(const C* a, const C* b);
  // Adds the products of the rows since the last call to c [m, n], whose rows are c_row elements apart.
  void AddTo(C* c, int64_t c_row);

 private:
  void AddTile(const C* a, const C* b, int64_t height, int64_t width, C* c, int64_t c_row) const;

  int64_t m_, n_, capacity_, rows_ = 0;
  C *a_, *b_;
};

// Parts of an m x n matrix of sums for several threads: bands of the longer side, since each thread copies its part of
// the rows of both.
template <class C>
class OuterProductBands {
 public:
  struct Band {
    int64_t row, rows, column, columns;
  };

  // The matrix is the sum of `k` outer products.
  OuterProductBands(int64_t m, int64_t n, int64_t k, int64_t threads);

  int64_t count() const { return count_; }  // at most one for each thread
  Band At(int64_t band) const;
  // The sums of a band, and elements of memory for each.
  OuterProducts<C> Products(const Band& band, C* memory) const { return {band.rows, band.columns, rows_, memory}; }
  int64_t elements() const { return elements_; }
  int64_t rows() const { return rows_; }  // that Products takes at a time

 private:
  int64_t m_, n_, rows_, count_, elements_;
};

}  // namespace belfry::ops::simd
