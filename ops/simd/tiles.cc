#include "ops/simd/tiles_impl.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "ops/simd/parts_impl.h"
#include "ops/simd/tile_instructions_impl.h"
#include "ops/simd/transpose_impl.h"

namespace belfry::ops::simd {
namespace {

float WithoutSubnormal(float x) { return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }
// The processor rounds the exact sum to 24 bits of any exponent before it compares it with the smallest normal number,
// so a sum that only the grid of subnormal numbers would round up to that is 0.
float MultiplyAndAdd(float a, float b, float sum) {
  constexpr double kLeast = 0x1.ffffffp-127;
  a = WithoutSubnormal(a), b = WithoutSubnormal(b);
  const float y = WithoutSubnormal(std::fma(a, b, sum));
  if (std::abs(y) > std::numeric_limits<float>::min()) return y;
  return std::abs(std::fma(static_cast<double>(a), static_cast<double>(b), static_cast<double>(sum))) < kLeast
             ? std::copysign(0.0f, y)
             : y;
}

struct Emulation {
  float sums[kBlockTiles * kBlockTiles][kTileSums];
  const BFloat16* operands[8];

  template <int tile>
  void Zero() {
    std::fill_n(sums[tile], kTileSums, 0.0f);
  }
  template <int tile>
  void Load(const void* from) {
    if constexpr (tile < kBlockTiles * kBlockTiles) {
      std::memcpy(sums[tile], from, sizeof(sums[tile]));
    } else {
      operands[tile] = static_cast<const BFloat16*>(from);
    }
  }
  template <int tile>
  void Store(void* to) {
    std::memcpy(to, sums[tile], sizeof(sums[tile]));
  }
  template <int to, int a, int b>
  void Multiply() {
    for (int64_t i = 0; i < kTileRows; ++i) {
      for (int64_t j = 0; j < kTileRows; ++j) {
        float part[2] = {};
        for (int64_t p = 0; p < kTileDepth; ++p) {
          part[p % 2] =
              MultiplyAndAdd(static_cast<float>(operands[a][i * kTileDepth + p]),
                             static_cast<float>(operands[b][(p / 2 * kTileRows + j) * 2 + p % 2]), part[p % 2]);
        }
        float& sum = sums[to][i * kTileRows + j];
        sum = WithoutSubnormal(WithoutSubnormal(sum) + WithoutSubnormal(part[0] + part[1]));
      }
    }
  }
};

// Transposes a tile as 16 x 16 pairs of elements.
void Transpose(BFloat16* tile) {
  using V = Vector<float>;
  alignas(64) BFloat16 to[kTileElements];
  for (int64_t i = 0; i < kTileRows; i += V::kLanes) {
    for (int64_t j = 0; j < kTileRows; j += V::kLanes) {
      V::Lanes square[V::kLanes];
      for (int k = 0; k < V::kLanes; ++k) {
        std::memcpy(&square[k], tile + ((i + k) * kTileRows + j) * 2, sizeof(V::Lanes));
      }
      TransposeSquare<float>(square);
      for (int k = 0; k < V::kLanes; ++k) {
        std::memcpy(static_cast<void*>(to + ((j + k) * kTileRows + i) * 2), &square[k], sizeof(V::Lanes));
      }
    }
  }
  std::copy_n(to, kTileElements, tile);
}

// to[2 j] = even[j], to[2 j + 1] = odd[j] for 16 elements.
void Interleave(const BFloat16* even, const BFloat16* odd, BFloat16* to) {
  using Narrow [[gnu::vector_size(kTileRows * 2), gnu::aligned(2), gnu::may_alias]] = uint16_t;
  using Wide [[gnu::vector_size(kTileRows * 4), gnu::aligned(2), gnu::may_alias]] = uint32_t;
  const Wide low = __builtin_convertvector(*reinterpret_cast<const Narrow*>(even), Wide);
  const Wide high = __builtin_convertvector(*reinterpret_cast<const Narrow*>(odd), Wide);
  *reinterpret_cast<Wide*>(to) = low | high << 16;
}

// A tile of rows [rows, depth], stride elements apart, of which it may have fewer than 16 and 32.
void ReadRows(const BFloat16* from, int64_t stride, int64_t rows, int64_t depth, BFloat16* tile) {
  constexpr size_t kRowBytes = kTileDepth * sizeof(BFloat16);
  if (rows < kTileRows || depth < kTileDepth) std::fill_n(tile, kTileElements, BFloat16(0));
  for (int64_t i = 0; i < rows; ++i, from += stride, tile += kTileDepth) {
    if (depth == kTileDepth) {
      std::memcpy(static_cast<void*>(tile), from, kRowBytes);
    } else {
      std::copy_n(from, depth, tile);
    }
  }
}

// A tile of rows [depth, columns], two of them interleaved.
void ReadPairs(const BFloat16* from, int64_t stride, int64_t columns, int64_t depth, BFloat16* tile) {
  const bool whole = columns == kTileRows && depth == kTileDepth;
  for (int64_t p = 0; p < kTileDepth; p += 2, from += 2 * stride, tile += 2 * kTileRows) {
    if (whole) {
      Interleave(from, from + stride, tile);
      continue;
    }
    BFloat16 rows[2][kTileRows] = {};
    if (p < depth) std::copy_n(from, columns, rows[0]);
    if (p + 1 < depth) std::copy_n(from + stride, columns, rows[1]);
    Interleave(rows[0], rows[1], tile);
  }
}

// Reads the matrix in the order in which it is stored: lines of a row that are apart would come from memory one by one.
void Pack(const StripSource& source, const StripRange& range, bool rows_outer, BFloat16* to) {
  const int64_t strips = Parts(range.end - range.first, kStripWidth);
  const int64_t inner = source.depth_inner ? range.steps : strips;
  for (int64_t i = 0; i < strips * range.steps; ++i) {
    const int64_t step = source.depth_inner ? i % inner : i / inner, strip = source.depth_inner ? i / inner : i % inner;
    const int64_t p = range.p + step * kTileDepth, depth = std::min(kTileDepth, source.depth - p);
    const int64_t end = std::min(range.end, range.first + (strip + 1) * kStripWidth);
    BFloat16* tile = to + strip * range.strip + step * kStripStep;
    for (int64_t o = range.first + strip * kStripWidth; o < end; o += kTileRows, tile += kTileElements) {
      const int64_t count = std::min(kTileRows, end - o);
      if (source.depth_inner) {
        ReadRows(source.x + o * source.stride + p, source.stride, count, depth, tile);
      } else {
        ReadPairs(source.x + p * source.stride + o, source.stride, count, depth, tile);
      }
      if (source.depth_inner != rows_outer) Transpose(tile);
    }
  }
}

void EmulateRound(const float* low, const float* high, const float* added, BFloat16* to) {
  for (int64_t j = 0; j < kStripWidth; ++j) {
    const float sum = (j < kTileRows ? low[j] : high[j - kTileRows]) + added[j];
    to[j] = static_cast<BFloat16>(WithoutSubnormal(sum));
  }
}

bool WishIs(const char* wish) {
  const char* const given = std::getenv("BELFRY_TILES");
  return given != nullptr && std::strcmp(given, wish) == 0;
}

}  // namespace

bool EmulatesTiles() {
  static const bool emulates = WishIs("emulated");
  return emulates;
}

Tiles AvailableTiles() {
  if (EmulatesTiles()) return Tiles::kEmulation;
  static const bool allowed = !WishIs("off") && tile_instructions::Allowed();
  return allowed ? Tiles::kInstructions : Tiles::kNone;
}

TileScope::TileScope(Tiles tiles) : tiles_(tiles) {
  if (tiles_ == Tiles::kInstructions) tile_instructions::Start();
}
TileScope::~TileScope() {
  if (tiles_ == Tiles::kInstructions) tile_instructions::End();
}

void TileScope::Multiply(const TileBlock& block) const {
  tiles_ == Tiles::kInstructions ? tile_instructions::Multiply(block) : MultiplyBlock<Emulation>(block);
}

void TileScope::Store(const TileBlock& block, const float* added, int64_t m, int64_t n, BFloat16* y,
                      int64_t y_row) const {
  const auto round = tiles_ == Tiles::kInstructions ? &tile_instructions::Round : &EmulateRound;
  for (int64_t i = 0; i < m; ++i, y += y_row) {
    const float* const low = block.sums + i / kTileRows * block.columns * kTileSums + i % kTileRows * kTileRows;
    const float* const high = block.columns == kBlockTiles ? low + kTileSums : low;
    if (n == kStripWidth) {
      round(low, high, added, y);
    } else {
      BFloat16 row[kStripWidth];
      round(low, high, added, row);
      std::copy_n(row, n, y);
    }
  }
}

void PackA(const StripSource& source, const StripRange& range, BFloat16* to) {
  Pack(source, range, /*rows_outer=*/true, to);
}
void PackB(const StripSource& source, const StripRange& range, BFloat16* to) {
  Pack(source, range, /*rows_outer=*/false, to);
}

}  // namespace belfry::ops::simd
