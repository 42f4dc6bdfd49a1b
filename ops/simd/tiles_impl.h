// Products by tiles (AMX), registers of 16 rows of 64 bytes that Intel's processors have since Sapphire Rapids, and an
// emulation of them for tests on any processor. For CPU kernels.
#pragma once

#include <cstdint>

#include "framework/base/half.h"

namespace belfry::ops::simd {

// A tile holds 16 x 16 float sums, row by row, or an operand: 16 rows of a with 32 elements each, or 32 rows of b with
// 16 columns, of which two rows lie interleaved: element (p, j) at [p / 2][j][p % 2].
inline constexpr int64_t kTileRows = 16, kTileDepth = 32;
inline constexpr int64_t kTileElements = kTileRows * kTileDepth, kTileSums = kTileRows * kTileRows;

enum class Tiles { kNone, kInstructions, kEmulation };

// The tiles that kernels use: those of the processor, if it has them for bfloat16 and the system lets this process use
// them, which the first call asks for. The environment variable BELFRY_TILES says otherwise: "off", or "emulated",
// which is slow. From then on the process's alternative signal stacks must have room for tiles, 12 KiB (sigaltstack,
// AT_MINSIGSTKSZ); Linux refuses if one has not. Thread-safe.
Tiles AvailableTiles();
// True if BELFRY_TILES is "emulated". Asks for nothing. Thread-safe.
bool EmulatesTiles();

// Rows and columns of tiles that are multiplied together, so that their sums and operands fill the registers.
inline constexpr int64_t kBlockTiles = 2, kStripWidth = kBlockTiles * kTileRows;

// sums = a b, or sums + a b: `rows` x `columns` tiles of sums, 1 to kBlockTiles each, one behind the other. Operands
// are strips: for each step kBlockTiles tiles, of which the last is not read if there is one row or column.
struct TileBlock {
  int64_t rows = kBlockTiles, columns = kBlockTiles;
  int64_t steps = 0;
  const BFloat16 *a = nullptr, *b = nullptr;
  float* sums = nullptr;
  bool add = false;
};
inline constexpr int64_t kStripStep = kBlockTiles * kTileElements;

// The calling thread's use of tile registers. `tiles` is what AvailableTiles() returned, but not kNone, or kEmulation.
// The system saves the registers at each change of threads until this ends.
//
// Instructions and emulation give a sum the same bits: in each step, the products of even and of odd elements are
// summed apart, by fused multiply-adds in ascending order; then both are added, and the result is added to the sum.
// Subnormal operands and results are 0 (Intel's manual of instructions, TDPBF16PS and VCVTNE2PS2BF16).
class TileScope {
 public:
  explicit TileScope(Tiles tiles);
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

  void Multiply(const TileBlock& block) const;
  // Rounds the sums of a block, each with what its column has in `added`, to m x n elements of y, whose rows are y_row
  // elements apart.
  void Store(const TileBlock& block, const float* added, int64_t m, int64_t n, BFloat16* y, int64_t y_row) const;

 private:
  Tiles tiles_;
};

// A matrix from which operands are packed: x[o, p], where o is the row of a or the column of b, is at o * stride + p if
// `depth_inner`, otherwise at p * stride + o.
struct StripSource {
  const BFloat16* x;
  int64_t stride, depth;  // all elements that are multiplied
  bool depth_inner;
};
// Strips of `steps` steps from element `p` on, for o from `first` to `end`, `strip` elements apart. Tiles that
// reach beyond the matrix are filled with 0; tiles that lie beyond it are not written.
struct StripRange {
  int64_t first, end, p, steps, strip;
};
void PackA(const StripSource& source, const StripRange& range, BFloat16* to);
void PackB(const StripSource& source, const StripRange& range, BFloat16* to);

}  // namespace belfry::ops::simd
