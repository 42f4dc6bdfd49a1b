// Single-pass CPU kernels on matrices [rows, channels], in vector registers and in the order of memory. Internal.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "framework/base/parallel.h"
#include "framework/base/shape.h"
#include "ops/common/compute_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {

// The rows of a tensor, divided into blocks, the parts of parallel loops, and the blocks into chunks, the parts of
// sums. Both depend on the sizes only, and so do the bits of sums: each chunk is summed by one thread, and chunks are
// added in ascending order.
//
// Few channels fill no register, so several rows are taken as one of `lanes` elements, in which the channels repeat.
class ChannelRows {
 public:
  // For a tensor [..., channels].
  explicit ChannelRows(const Shape& shape) : ChannelRows(shape.elements(0, shape.rank() - 1), shape[-1]) {}
  ChannelRows(int64_t rows, int64_t channels)
      : rows_(rows),
        channels_(channels),
        fold_(Fold(channels)),
        block_(std::max(kBlockElements / std::max<int64_t>(lanes(), 1), kLeastRows) * fold_),
        chunks_(std::clamp<int64_t>(rows / std::max(kLeastRowsOfChunk * fold_, block_), 1, kMaxChunks)) {}

  int64_t rows() const { return rows_; }
  int64_t channels() const { return channels_; }
  int64_t lanes() const { return channels_ * fold_; }
  // Length of a vector over the lanes, with room to read and write whole registers.
  int64_t padded_lanes() const { return (lanes() + kWidest - 1) / kWidest * kWidest; }

  // Makes a vector over the lanes of one over the channels.
  template <class C>
  void Repeat(C* of) const {
    for (int64_t i = channels_; i < lanes(); ++i) of[i] = of[i - channels_];
    std::fill(of + lanes(), of + padded_lanes(), C(0));
  }
  // Adds the lanes of each channel to totals[channels].
  template <class C>
  void AddLanes(const C* of, C* totals) const {
    for (int64_t i = 0; i < lanes(); i += channels_) {
      for (int64_t c = 0; c < channels_; ++c) totals[c] += of[i + c];
    }
  }

  struct Range {
    int64_t begin, end;  // rows
    int64_t rows() const { return end - begin; }
  };
  int64_t chunks() const { return rows_ * channels_ == 0 ? 0 : chunks_; }
  Range Chunk(int64_t chunk) const { return {FirstOfChunk(chunk), FirstOfChunk(chunk + 1)}; }
  // The first rows of a range, whose mean stands for that of all.
  Range Sample(Range of) const { return {of.begin, std::min(of.begin + kLeastRows * fold_, of.end)}; }

  // Calls body(chunk) for all chunks, on the device's threads. `cost` is the number of scalar operations per element.
  template <class Body>
  void ForEachChunk(double cost, const Body& body) const {
    if (chunks() == 0) return;
    ParallelFor(chunks_, cost * static_cast<double>(rows_ * channels_) / static_cast<double>(chunks_),
                [&](int64_t begin, int64_t end) {
                  for (int64_t chunk = begin; chunk < end; ++chunk) body(chunk);
                });
  }
  // Calls body(range) for the blocks of a range.
  template <class Body>
  void ForEachBlockOf(Range range, const Body& body) const {
    for (int64_t row = range.begin; row < range.end; row += block_) {
      body(Range{row, std::min(row + block_, range.end)});
    }
  }
  // Calls body(range) for all blocks, on the device's threads.
  template <class Body>
  void ForEachBlock(double cost, const Body& body) const {
    ParallelFor(blocks(), cost * static_cast<double>(block_ * channels_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(Range{i * block_, std::min((i + 1) * block_, rows_)});
    });
  }

  // Calls visit(strip, lane) for the registers of a range, in the order of memory: other orders, such as four rows of
  // 256 channels at a time, take up to twice the time with tensors in memory. Sums of few lanes take four rows at a
  // time, or each would wait for the one before.
  template <class C, bool kSums, class Visit>
  void ForEachStrip(Range range, const Visit& visit) const {
    int64_t at = range.begin * channels_, left = range.rows() / fold_;
    if constexpr (kSums) {
      for (; left >= 4 && lanes() <= kFewLanes; left -= 4, at += 4 * lanes()) Strips<C, 4>(at, lanes(), visit);
    }
    for (; left > 0; --left, at += lanes()) Strips<C, 1>(at, lanes(), visit);
    Strips<C, 1>(at, range.end * channels_ - at, visit);
  }

  // kRows registers, `step` elements apart, of which the first `width` lanes are used.
  template <class C, int kRows, bool kWhole>
  struct Strip {
    using Lanes = typename simd::Vector<C>::Lanes;
    static constexpr int kCount = kRows;

    int64_t at, step, width;

    template <class T>
    Lanes Load(const T* x, int row) const {
      if constexpr (kWhole) return simd::Load(x + at + row * step);
      return simd::Load(x + at + row * step, width);
    }
    template <class T>
    void Store(Lanes y, T* to, int row) const {
      if constexpr (kWhole) {
        simd::Store(y, to + at + row * step);
      } else {
        simd::Store(y, to + at + row * step, width);
      }
    }
    // Adds the used lanes.
    void Add(Lanes part, C* sums) const {
      if constexpr (kWhole) {
        simd::Store(simd::Load(sums) + part, sums);
      } else {
        simd::Store(simd::Load(sums, width) + part, sums, width);
      }
    }
  };

 private:
  static constexpr int64_t kWidest = 16;  // elements of the widest register
  static constexpr int64_t kLeastLanes = 64, kFewLanes = 96, kMostFoldedLanes = 4096;
  // The least elements and rows of lanes of a block. A chunk has more rows, since adding its sums to the others costs
  // as much as a few rows.
  static constexpr int64_t kBlockElements = 16384, kLeastRows = 16, kLeastRowsOfChunk = 128, kMaxChunks = 64;

  // Rows whose elements fill whole registers.
  static int64_t Fold(int64_t channels) {
    if (channels == 0) return 1;
    const int64_t whole = kWidest / std::gcd(channels, kWidest), lanes = channels * whole;
    if (lanes > kMostFoldedLanes) return 1;
    return whole * ((kLeastLanes + lanes - 1) / lanes);
  }

  int64_t blocks() const { return (rows_ + block_ - 1) / block_; }
  int64_t FirstOfChunk(int64_t chunk) const { return std::min(rows_, blocks() * chunk / chunks_ * block_); }

  template <class C, int kRows, class Visit>
  void Strips(int64_t at, int64_t n, const Visit& visit) const {
    constexpr int kLanes = simd::Vector<C>::kLanes;
    int64_t lane = 0;
    for (; lane + kLanes <= n; lane += kLanes) visit(Strip<C, kRows, true>{at + lane, lanes(), kLanes}, lane);
    if (lane < n) visit(Strip<C, kRows, false>{at + lane, lanes(), n - lane}, lane);
  }

  int64_t rows_, channels_, fold_, block_, chunks_;
};

// kKinds vectors over the lanes.
template <class C, int kKinds>
struct LaneNumbers {
  C* of[kKinds];

  LaneNumbers(const ChannelRows& rows, void* workspace) {
    for (int k = 0; k < kKinds; ++k) of[k] = static_cast<C*>(workspace) + k * rows.padded_lanes();
  }
  static size_t Bytes(const ChannelRows& rows) { return static_cast<size_t>(kKinds * rows.padded_lanes()) * sizeof(C); }
};

// y = f(lane)(x...) for every element of tensors of one shape, in registers: f loads the numbers of the lanes from
// `lane` on. y may be one of x. `cost` is the number of scalar operations per element.
template <class T, class F, class... X>
void MapByChannel(const ChannelRows& rows, double cost, T* y, const F& f, const X*... x) {
  rows.ForEachBlock(cost, [&](ChannelRows::Range range) {
    rows.ForEachStrip<Compute<T>, /*kSums=*/false>(range, [&](auto strip, int64_t lane) {
      const auto of_lane = f(lane);
      for (int row = 0; row < strip.kCount; ++row) strip.Store(of_lane(strip.Load(x, row)...), y, row);
    });
  });
}

// Sums over the rows of kSums numbers per element. Rows of a block are added first, then the blocks of a chunk, which
// keeps rounding small with many rows.
template <class C, int kSums>
class ChannelSums {
 public:
  using Lanes = typename simd::Vector<C>::Lanes;

  explicit ChannelSums(const ChannelRows& rows) : rows_(rows), size_(kSums * rows.padded_lanes()) {}

  // [chunks, 2, kSums, lanes].
  size_t workspace_bytes() const { return static_cast<size_t>(rows_.chunks() * 2 * size_) * sizeof(C); }

  // f(lane) returns add(strip, row, sums), which adds the numbers of a register to Lanes sums[kSums]. Writes the sums
  // to totals[kSums][channels].
  template <class F>
  void Run(void* workspace, double cost, const F& f, const std::array<C*, kSums>& totals) const {
    C* const space = static_cast<C*>(workspace);
    rows_.ForEachChunk(cost, [&](int64_t chunk) { Sum(rows_.Chunk(chunk), f, space + chunk * 2 * size_); });
    for (int k = 0; k < kSums; ++k) {
      std::fill_n(totals[k], rows_.channels(), C(0));
      for (int64_t chunk = 0; chunk < rows_.chunks(); ++chunk) {
        rows_.AddLanes(space + chunk * 2 * size_ + k * rows_.padded_lanes(), totals[k]);
      }
    }
  }

  // The sums of a range in the first half of space[2][kSums][lanes].
  template <class F>
  void Sum(ChannelRows::Range range, const F& f, C* space) const {
    C *const total = space, *const of_block = space + size_;
    std::fill_n(total, size_, C(0));
    rows_.ForEachBlockOf(range, [&](ChannelRows::Range block) {
      std::fill_n(of_block, size_, C(0));
      rows_.template ForEachStrip<C, /*kSums=*/true>(block, [&](auto strip, int64_t lane) {
        const auto add = f(lane);
        Lanes part[kSums] = {};
        for (int row = 0; row < strip.kCount; ++row) add(strip, row, part);
        for (int k = 0; k < kSums; ++k) {
          strip.Add(part[k], of_block + k * rows_.padded_lanes() + lane);
        }
      });
      for (int64_t i = 0; i < size_; ++i) total[i] += of_block[i];
    });
  }

 private:
  ChannelRows rows_;
  int64_t size_;
};

}  // namespace belfry::ops
