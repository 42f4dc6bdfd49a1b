// Mean and variance of each channel, on CPUs. Internal.
#pragma once

#include <cmath>

#include "ops/common/op_rules_impl.h"
#include "ops/normalisation/channels_impl.h"

namespace belfry::ops {

// The dtype of vectors over the channels: float64 for float64, otherwise float32. Type variable "U" of the ops.
inline DType WideDType(DType dtype) { return dtype == DType::kFloat64 ? dtype : DType::kFloat32; }
inline ArgDef Wide(const char* name) { return {.name = name, .type = "U"}; }

// Mean and biased variance of x over all axes but the last, in one pass over memory. Without rows both are 0.
//
// To preserve precision with a large mean, sums of values and squares are of differences from a center, the mean of the
// first rows of a chunk, its sample. The variance of a chunk is then a difference of two numbers, which loses precision
// when the chunk's mean is many deviations from the center. At worst all other rows are equal, and the relative error
// is that of the sum multiplied by the rows of the chunk and divided by those of the sample. Chunks are combined as in
// Chan et al., "Algorithms for Computing the Sample Variance", 1983.
template <class C>
class ChannelMomentsKernel {
 public:
  explicit ChannelMomentsKernel(const ChannelRows& rows) : rows_(rows), sums_(rows), mean_(rows) {}

  size_t workspace_bytes() const { return static_cast<size_t>(rows_.chunks() * SpaceOfChunk()) * sizeof(C); }

  template <class T>
  void Run(void* workspace, const T* x, C* mean, C* variance) const {
    C* const space = static_cast<C*>(workspace);
    rows_.ForEachChunk(6, [&](int64_t chunk) { Sum(rows_.Chunk(chunk), x, space + chunk * SpaceOfChunk()); });
    Combine(space, mean, variance);
  }

 private:
  using V = simd::Vector<C>;

  // Center, and the space of ChannelSums, in whose second half Sum leaves the sums of differences from the center and
  // of their squares, by channel.
  int64_t SpaceOfChunk() const { return 5 * rows_.padded_lanes(); }
  int64_t Differences() const { return 3 * rows_.padded_lanes(); }
  int64_t Squares() const { return 4 * rows_.padded_lanes(); }

  template <class T>
  void Sum(ChannelRows::Range chunk, const T* x, C* center) const {
    C* const space = center + rows_.padded_lanes();
    const T* const first = x + chunk.begin * rows_.channels();
    for (int64_t c = 0; c < rows_.channels(); ++c) {
      const auto origin = static_cast<C>(first[c]);
      center[c] = std::isfinite(origin) ? origin : C(0);
    }
    rows_.Repeat(center);
    const ChannelRows::Range sample = rows_.Sample(chunk);
    mean_.Sum(
        sample,
        [=](int64_t lane) {
          return [=, origin = V::Load(center + lane)](auto strip, int row, auto& sums) {
            sums[0] += strip.Load(x, row) - origin;
          };
        },
        space);
    for (int64_t c = 0; c < rows_.channels(); ++c) {
      C sum = 0;
      for (int64_t i = c; i < rows_.lanes(); i += rows_.channels()) sum += space[i];
      const C shifted = center[c] + sum / static_cast<C>(sample.rows());
      if (std::isfinite(shifted)) center[c] = shifted;
    }
    rows_.Repeat(center);
    sums_.Sum(
        chunk,
        [=](int64_t lane) {
          return [=, origin = V::Load(center + lane)](auto strip, int row, auto& sums) {
            const auto difference = strip.Load(x, row) - origin;
            sums[0] += difference;
            sums[1] += difference * difference;
          };
        },
        space);
    std::fill(center + Differences(), center + SpaceOfChunk(), C(0));
    rows_.AddLanes(space, center + Differences());
    rows_.AddLanes(space + rows_.padded_lanes(), center + Squares());
  }

  void Combine(const C* space, C* mean, C* variance) const {
    const int64_t channels = rows_.channels(), chunks = rows_.chunks();
    std::fill_n(mean, channels, C(0));
    std::fill_n(variance, channels, C(0));
    if (chunks == 0) return;
    const C* const origin = space;  // the center of the first chunk
    const C share = 1 / static_cast<C>(rows_.rows());
    // The mean of a chunk, as a difference from the origin, which is subtracted first: it may be large.
    const auto difference = [=, this](const C* of, int64_t c, C rows) {
      return (of[c] - origin[c]) + of[Differences() + c] / rows;
    };
    for (int64_t k = 0; k < chunks; ++k) {
      const C* const of = space + k * SpaceOfChunk();
      const auto rows = static_cast<C>(rows_.Chunk(k).rows());
      for (int64_t c = 0; c < channels; ++c) mean[c] += rows * share * difference(of, c, rows);
    }
    for (int64_t k = 0; k < chunks; ++k) {
      const C* const of = space + k * SpaceOfChunk();
      const auto rows = static_cast<C>(rows_.Chunk(k).rows());
      for (int64_t c = 0; c < channels; ++c) {
        const C sum = of[Differences() + c], within = of[Squares() + c] - sum * (sum / rows);
        const C between = difference(of, c, rows) - mean[c];
        variance[c] += (within < 0 ? C(0) : within) + rows * between * between;
      }
    }
    for (int64_t c = 0; c < channels; ++c) {
      variance[c] *= share;
      mean[c] += origin[c];
    }
  }

  ChannelRows rows_;
  ChannelSums<C, 2> sums_;
  ChannelSums<C, 1> mean_;
};

}  // namespace belfry::ops
