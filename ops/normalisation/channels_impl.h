// Single-pass CPU kernels on matrices [rows, channels], whose loops fill the vector registers even with few channels.
// Internal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "framework/base/parallel.h"
#include "framework/base/shape.h"
#include "ops/common/compute_impl.h"

namespace belfry::ops {

// Elements that an inner loop processes at a time: four AVX-512 vectors of float, whose sums stay in registers.
inline constexpr int64_t kPanel = 64;

// A tensor divided into tiles that fit in the L1 cache, and the tiles into chunks. Both depend on the sizes only, and
// so do the bits of sums: each chunk is summed by one thread, and chunks are added in ascending order.
class ChannelTiles {
 public:
  static constexpr int64_t kElements = 2048, kWidest = 256;  // maximum elements of a tile, and its maximum channels

  // For a tensor [..., channels].
  explicit ChannelTiles(const Shape& shape) : ChannelTiles(shape.elements(0, shape.rank() - 1), shape[-1]) {}
  ChannelTiles(int64_t rows, int64_t channels)
      : rows_(rows),
        channels_(channels),
        width_(std::clamp<int64_t>(channels, 1, kWidest)),
        fold_(channels > 0 && channels < kPanel ? kPanel / channels : 1),
        tile_rows_(kElements / width_ / fold_ * fold_),
        chunks_(std::clamp<int64_t>(tiles(), 1, kMaxChunks)) {}

  int64_t rows() const { return rows_; }
  int64_t channels() const { return channels_; }
  int64_t chunks() const { return chunks_; }
  // Length of a vector over the channels as loops read it: with few channels it is repeated, because a loop spans
  // several rows.
  int64_t lanes() const { return std::max(kPanel, channels_); }
  template <class C>
  void Repeat(C* lanes) const {
    for (int64_t i = channels_; i < channels_ * fold_; ++i) lanes[i] = lanes[i - channels_];
  }

  struct Tile {
    int64_t row, rows, channel, width;
  };
  int64_t FirstRow(int64_t chunk) const { return std::min(rows_, tiles() * chunk / chunks_ * tile_rows_); }
  int64_t RowsOfChunk(int64_t chunk) const { return FirstRow(chunk + 1) - FirstRow(chunk); }
  // Calls body(tile) for the tiles of a chunk.
  template <class Body>
  void ForEachTileOf(int64_t chunk, const Body& body) const {
    const int64_t end = FirstRow(chunk + 1);
    for (int64_t row = FirstRow(chunk); row < end; row += tile_rows_) {
      for (int64_t channel = 0; channel < channels_; channel += width_) {
        body(Tile{row, std::min(tile_rows_, end - row), channel, std::min(width_, channels_ - channel)});
      }
    }
  }
  // Calls body(tile) for all tiles, on the device's threads. `cost` is the number of scalar operations per element.
  template <class Body>
  void ForEachTile(double cost, const Body& body) const {
    const int64_t across = (channels_ + width_ - 1) / width_;
    ParallelFor(tiles() * across, cost * static_cast<double>(tile_rows_ * width_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / across * tile_rows_, channel = i % across * width_;
        body(Tile{row, std::min(tile_rows_, rows_ - row), channel, std::min(width_, channels_ - channel)});
      }
    });
  }
  template <class Body>
  void ForEachChunk(double cost, const Body& body) const {
    if (rows_ * channels_ == 0) return;
    cost *= static_cast<double>(rows_ * channels_) / static_cast<double>(chunks_);
    ParallelFor(chunks_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) body(chunk);
    });
  }

  // Calls loop(at, first, rows, step, lanes) for each panel of a tile: `rows` runs of `lanes` elements, `step` apart,
  // starting at element `at` of the tile, whose rows are `stride` apart. Within a run the channels start at
  // tile.channel + first and, with few channels, repeat. `lanes` is a constant if it is kPanel.
  template <class Loop>
  void ForEachPanel(const Tile& tile, int64_t stride, const Loop& loop) const {
    const auto call = [&](int64_t at, int64_t first, int64_t rows, int64_t step, int64_t lanes) {
      if (lanes == kPanel) {
        loop(at, first, rows, step, std::integral_constant<int64_t, kPanel>());
      } else {
        loop(at, first, rows, step, lanes);
      }
    };
    if (fold_ > 1) {
      const int64_t lanes = channels_ * fold_, whole = tile.rows / fold_, rest = tile.rows % fold_;
      if (whole > 0) call(0, 0, whole, lanes, lanes);
      if (rest > 0) call(whole * lanes, 0, 1, lanes, rest * channels_);
      return;
    }
    for (int64_t c = 0; c < tile.width; c += kPanel) call(c, c, tile.rows, stride, std::min(kPanel, tile.width - c));
  }
  // Adds the lanes' sums of a panel to totals[c], where c is a channel of the tile.
  template <class C>
  void AddLanes(const C* sums, int64_t first, int64_t lanes, C* totals) const {
    const int64_t period = fold_ > 1 ? channels_ : lanes;
    for (int64_t i = 0; i < lanes; i += period) {
      for (int64_t c = 0; c < period; ++c) totals[first + c] += sums[i + c];
    }
  }

 private:
  static constexpr int64_t kMaxChunks = 64;

  int64_t tiles() const { return (rows_ + tile_rows_ - 1) / tile_rows_; }

  int64_t rows_, channels_, width_, fold_, tile_rows_, chunks_;
};

// A tile of a tensor in the type of the computation: in place, or as a converted copy.
template <class D>
class TileOf {
 public:
  using T = std::remove_const_t<D>;
  // Stride between rows of the tile, the same for all tensors of T.
  static int64_t Stride(const ChannelTiles& tiles, const ChannelTiles::Tile& tile) {
    return kIsSixteenBit<T> ? tile.width : tiles.channels();
  }

  TileOf(const ChannelTiles& tiles, const ChannelTiles::Tile& tile, D* data)
      : tile_(tile), channels_(tiles.channels()), data_(data + tile.row * channels_ + tile.channel) {}

  const Compute<T>* Load() {
    if constexpr (kIsSixteenBit<T>) {
      Copy([](D* data, float* buffer, int64_t n) { ToFloat(data, buffer, n); });
      return buffer_;
    } else {
      return data_;
    }
  }
  // The buffer to compute the tile in; Store() then writes it back.
  Compute<T>* Computed() { return Wide(data_, buffer_); }
  void Store() {
    if constexpr (kIsSixteenBit<T>) {
      Copy([](D* data, float* buffer, int64_t n) { FromFloat(buffer, data, n); });
    }
  }

 private:
  template <class Move>
  void Copy(const Move& move) {
    if (tile_.width == channels_) return move(data_, buffer_, tile_.rows * channels_);
    for (int64_t row = 0; row < tile_.rows; ++row)
      move(data_ + row * channels_, buffer_ + row * tile_.width, tile_.width);
  }

  const ChannelTiles::Tile tile_;
  const int64_t channels_;
  D* const data_;
  alignas(64) Compute<T> buffer_[kIsSixteenBit<T> ? ChannelTiles::kElements : 1];
};

// kKinds vectors over the channels as loops read them, with ChannelTiles::lanes() elements each.
template <class C, int kKinds>
struct LaneNumbers {
  C* of[kKinds];

  LaneNumbers(const ChannelTiles& tiles, void* workspace) {
    for (int k = 0; k < kKinds; ++k) of[k] = static_cast<C*>(workspace) + k * tiles.lanes();
  }
  static size_t Bytes(const ChannelTiles& tiles) { return static_cast<size_t>(kKinds * tiles.lanes()) * sizeof(C); }
};

// y = f(c, x...) for every element of tensors of one shape, where c is the index of its channel in LaneNumbers. y may
// be one of x. `cost` is the number of scalar operations per element.
template <class T, class F, class... X>
void ForEachElementByChannel(const ChannelTiles& tiles, double cost, T* y, const F& f, const X*... x) {
  using C = Compute<T>;
  const auto compute = [&](const ChannelTiles::Tile& tile, C* to, const auto*... from) {
    const int64_t stride = TileOf<T>::Stride(tiles, tile);
    tiles.ForEachPanel(tile, stride, [&](int64_t at, int64_t first, int64_t rows, int64_t step, auto lanes) {
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t begin = at + r * step, channel = tile.channel + first;
#pragma omp simd
        for (int64_t i = 0; i < lanes; ++i) to[begin + i] = f(channel + i, from[begin + i]...);
      }
    });
  };
  tiles.ForEachTile(cost, [&](const ChannelTiles::Tile& tile) {
    TileOf<T> to(tiles, tile, y);
    const auto load = [&](auto&&... from) { compute(tile, to.Computed(), from.Load()...); };
    load(TileOf<const T>(tiles, tile, x)...);
    to.Store();
  });
}

// Sums over the rows of kSums numbers per element: [kSums, channels].
template <class C, int kSums>
class ChannelSums {
 public:
  explicit ChannelSums(const ChannelTiles& tiles) : tiles_(tiles) {}

  size_t workspace_bytes() const { return static_cast<size_t>(tiles_.chunks() * width()) * sizeof(C); }

  // add(c, rows, step, lanes, sums, x...) adds `rows` runs of `lanes` elements, `step` apart, to sums[kSums][lanes]; c
  // is the index of the first channel in LaneNumbers. Returns the sums, at the start of the workspace.
  template <class F, class... X>
  const C* Run(void* workspace, double cost, const F& add, const X*... x) const {
    C* const totals = static_cast<C*>(workspace);
    std::fill_n(totals, tiles_.chunks() * width(), C(0));
    tiles_.ForEachChunk(cost, [&](int64_t chunk) {
      tiles_.ForEachTileOf(chunk, [&](const ChannelTiles::Tile& tile) {
        const auto load = [&](auto&&... from) { AddTile(tile, totals + chunk * width(), add, from...); };
        load(TileOf<const X>(tiles_, tile, x)...);
      });
    });
    for (int64_t chunk = 1; chunk < tiles_.chunks(); ++chunk) {
      for (int64_t i = 0; i < width(); ++i) totals[i] += totals[chunk * width() + i];
    }
    return totals;
  }

 private:
  int64_t width() const { return kSums * tiles_.channels(); }

  template <class F, class First, class... Rest>
  void AddTile(const ChannelTiles::Tile& tile, C* totals, const F& add, First& first_of, Rest&... rest) const {
    AddPanels(tile, First::Stride(tiles_, tile), totals, add, first_of.Load(), rest.Load()...);
  }
  template <class F, class... From>
  void AddPanels(const ChannelTiles::Tile& tile, int64_t stride, C* totals, const F& add, const From*... from) const {
    tiles_.ForEachPanel(tile, stride, [&](int64_t at, int64_t first, int64_t rows, int64_t step, auto lanes) {
      C sums[kSums][kPanel] = {};
      add(tile.channel + first, rows, step, lanes, sums, (from + at)...);
      for (int k = 0; k < kSums; ++k) {
        tiles_.AddLanes(sums[k], first, lanes, totals + k * tiles_.channels() + tile.channel);
      }
    });
  }

  ChannelTiles tiles_;
};

}  // namespace belfry::ops
