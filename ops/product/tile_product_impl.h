// Matrix products of bfloat16 by tiles (ops/simd/tiles_impl.h).
#pragma once

#include <cstdint>

#include "framework/base/half.h"
#include "ops/elementwise/elementwise_impl.h"
#include "ops/simd/tiles_impl.h"

namespace belfry::ops {

// c [m, n] = f(op(a) [m, k] op(b) [k, n] + bias), row-major and contiguous, as BlockedProduct computes it, with sums in
// float that are rounded once, after f. k > 0. The bits of c do not depend on the number of threads, and are the same
// with emulated tiles.
//
// Both are packed into strips of tiles: b in panels of two tiles' columns, of which one at a time is in the L1 cache,
// and a in blocks of rows.
class TileProduct {
 public:
  using C = float;  // elements of workspaces

  // The tiles for a product that is faster with them than by oneDNN (2.6, Emerald Rapids); kNone for others, and where
  // there are none. Products of fewer than 2^26 multiply-adds or with k below 32 are not faster, nor those of up to 512
  // rows, unless a is transposed or b has fewer columns than rows: oneDNN packs a wide b faster. Emulated tiles serve
  // all products except those with k = 0.
  static simd::Tiles Tiles(int64_t m, int64_t n, int64_t k, bool transpose_a);

  // Runs on up to ParallelThreads() threads, those of the thread that makes it. `tiles` is not kNone.
  TileProduct(simd::Tiles tiles, int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b,
              const ElementLoops& f = {});

  // These do the same as those of BlockedProduct. Sizes are in elements C.
  int64_t workspace_elements() const;
  void Run(const BFloat16* a, const BFloat16* b, const BFloat16* bias, BFloat16* c, C* workspace) const;
  void Pack(const BFloat16* b, C* packed) const;
  void RunPacked(const BFloat16* a, const C* packed, const BFloat16* bias, BFloat16* c, C* workspace) const;
  int64_t packed_elements() const;
  int64_t packed_workspace_elements() const;

 private:
  simd::StripSource Rows(const BFloat16* a) const;
  simd::StripSource Columns(const BFloat16* b) const;
  void RunTask(int64_t number, const BFloat16* a, const BFloat16* b, const BFloat16* packed, const BFloat16* bias,
               BFloat16* c, C* scratch) const;
  void Finish(const simd::TileScope& tiles, const simd::TileBlock& block, int64_t row, int64_t column,
              const BFloat16* bias, BFloat16* c) const;
  void RunTasks(const BFloat16* a, const BFloat16* b, const BFloat16* packed, const BFloat16* bias, BFloat16* c,
                C* workspace) const;

  simd::Tiles tiles_;
  int64_t m_, n_, k_;
  bool transpose_a_, transpose_b_;
  ElementLoops f_;
  int64_t panels_, steps_;                            // of b
  int64_t rows_, row_tasks_, panel_tasks_, threads_;  // tasks are a grid of rows_ rows of a and parts of the panels
  int64_t depth_;                                     // steps of a block of k
  int64_t sums_, block_, panel_;  // elements of each thread's workspace; panel_ is 0 if all of b is packed first
};

}  // namespace belfry::ops
