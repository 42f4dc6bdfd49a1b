// Mean and variance of each channel, on CPUs. Internal.
#pragma once

#include <cmath>

#include "ops/common/op_rules_impl.h"
#include "ops/normalisation/channels_impl.h"

namespace belfry::ops {

// The dtype of vectors over the channels: float64 for float64, otherwise float32. Type variable "U" of the ops.
inline DType WideDType(DType dtype) { return dtype == DType::kFloat64 ? dtype : DType::kFloat32; }
inline ArgDef Wide(const char* name) { return {.name = name, .type = "U"}; }

// Mean and biased variance of x over all axes but the last, in one pass over memory. To preserve precision with a large
// mean, sums are of differences from the first row, and squares are taken about the mean of each tile; parts are
// combined as in Chan et al., "Algorithms for Computing the Sample Variance", 1983. Without rows both are 0.
template <class C>
class ChannelMomentsKernel {
 public:
  explicit ChannelMomentsKernel(const ChannelTiles& tiles) : tiles_(tiles) {}

  size_t workspace_bytes() const {
    return static_cast<size_t>(tiles_.lanes() + 2 * tiles_.chunks() * tiles_.channels()) * sizeof(C);
  }

  template <class T>
  void Run(void* workspace, const T* x, C* mean, C* variance) const {
    const int64_t channels = tiles_.channels(), chunks = tiles_.rows() == 0 ? 0 : tiles_.chunks();
    C *const origin = static_cast<C*>(workspace), *const sums = origin + tiles_.lanes(),
             *const squares = sums + chunks * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const C first = chunks == 0 ? C(0) : static_cast<C>(x[c]);
      origin[c] = std::isfinite(first) ? first : C(0);
    }
    tiles_.Repeat(origin);
    tiles_.ForEachChunk(
        6, [&](int64_t chunk) { Sum(chunk, x, origin, sums + chunk * channels, squares + chunk * channels); });
    std::fill_n(mean, channels, C(0));
    std::fill_n(variance, channels, C(0));
    const C share = 1 / static_cast<C>(std::max<int64_t>(tiles_.rows(), 1));
    for (int64_t k = 0; k < chunks; ++k) {
      for (int64_t c = 0; c < channels; ++c) mean[c] += sums[k * channels + c];
    }
    for (int64_t c = 0; c < channels; ++c) mean[c] *= share;
    for (int64_t k = 0; k < chunks; ++k) {
      const auto rows = static_cast<C>(tiles_.RowsOfChunk(k));
      for (int64_t c = 0; c < channels; ++c) {
        const C difference = sums[k * channels + c] / rows - mean[c];
        variance[c] += squares[k * channels + c] + rows * difference * difference;
      }
    }
    for (int64_t c = 0; c < channels; ++c) {
      variance[c] *= share;
      mean[c] += origin[c];
    }
  }

 private:
  // For one chunk: the sums of differences from the origin, and the sums of squared differences from the chunk's mean.
  template <class T>
  void Sum(int64_t chunk, const T* x, const C* origin, C* sums, C* squares) const {
    std::fill_n(sums, tiles_.channels(), C(0));
    std::fill_n(squares, tiles_.channels(), C(0));
    tiles_.ForEachTileOf(chunk, [&](const ChannelTiles::Tile& tile) {
      const int64_t before = tile.row - tiles_.FirstRow(chunk);  // in rows
      const C* const from_here = origin + tile.channel;
      TileOf<const T> from(tiles_, tile, x);
      const C* const data = from.Load();
      const int64_t stride = TileOf<const T>::Stride(tiles_, tile);
      alignas(64) C sum[ChannelTiles::kWidest] = {}, square[ChannelTiles::kWidest] = {}, center[ChannelTiles::kWidest];
      tiles_.ForEachPanel(tile, stride, [&](int64_t at, int64_t first, int64_t rows, int64_t step, auto lanes) {
        C total[kPanel] = {};
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < lanes; ++i) total[i] += data[at + r * step + i] - from_here[first + i];
        }
        tiles_.AddLanes(total, first, lanes, sum);
      });
      const C share = 1 / static_cast<C>(tile.rows);
      for (int64_t c = 0; c < tile.width; ++c) center[c] = from_here[c] + sum[c] * share;
      tiles_.Repeat(center);
      tiles_.ForEachPanel(tile, stride, [&](int64_t at, int64_t first, int64_t rows, int64_t step, auto lanes) {
        C total[kPanel] = {};
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < lanes; ++i) {
            const C difference = data[at + r * step + i] - center[first + i];
            total[i] += difference * difference;
          }
        }
        tiles_.AddLanes(total, first, lanes, square);
      });
      // Combines the squares of two parts, which includes the distance between their means.
      const C inverse = before == 0 ? C(0) : 1 / static_cast<C>(before);
      const C weight = static_cast<C>(before) * static_cast<C>(tile.rows) / static_cast<C>(before + tile.rows);
      for (int64_t c = 0; c < tile.width; ++c) {
        const C difference = before == 0 ? C(0) : sum[c] * share - sums[tile.channel + c] * inverse;
        squares[tile.channel + c] += square[c] + weight * difference * difference;
        sums[tile.channel + c] += sum[c];
      }
    });
  }

  ChannelTiles tiles_;
};

}  // namespace belfry::ops
