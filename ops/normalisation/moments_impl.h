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
// first rows of a chunk. The variance of a chunk is then a difference of two numbers, which loses precision only as far
// as the chunk's mean is many deviations from the center: at worst, if all rows but those first ones are equal, the
// relative error of the sum times the rows of a chunk over those of a sample. Chunks are combined as in Chan et al.,
// "Algorithms for Computing the Sample Variance", 1983.
template <class C>
class ChannelMomentsKernel {
 public:
  explicit ChannelMomentsKernel(const ChannelRows& rows) : rows_(rows), sums_(rows), mean_(rows) {}

  size_t workspace_bytes() const {
    return static_cast<size_t>(rows_.chunks() * SpaceOfChunk() + 2 * rows_.channels()) * sizeof(C);
  }

  template <class T>
  void Run(void* workspace, const T* x, C* mean, C* variance) const {
    C* const space = static_cast<C*>(workspace);
    rows_.ForEachChunk(6, [&](int64_t chunk) { Sum(rows_.Chunk(chunk), x, space + chunk * SpaceOfChunk()); });
    Combine(space, mean, variance);
  }

 private:
  using V = simd::Vector<C>;

  // Center, and sums of ChannelSums.
  int64_t SpaceOfChunk() const { return 5 * rows_.padded_lanes(); }

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
  }

  void Combine(C* space, C* mean, C* variance) const {
    const int64_t channels = rows_.channels(), chunks = rows_.chunks();
    std::fill_n(mean, channels, C(0));
    std::fill_n(variance, channels, C(0));
    if (chunks == 0) return;
    const C* const origin = space;  // the center of the first chunk
    const C share = 1 / static_cast<C>(rows_.rows());
    C *const sum = space + chunks * SpaceOfChunk(), *const square = sum + channels;
    const auto of_chunk = [&](int64_t chunk, const auto& use) {
      const C *const center = space + chunk * SpaceOfChunk(), *const sums = center + rows_.padded_lanes();
      std::fill_n(sum, 2 * channels, C(0));
      rows_.AddLanes(sums, sum);
      rows_.AddLanes(sums + rows_.padded_lanes(), square);
      const auto rows = static_cast<C>(rows_.Chunk(chunk).rows());
      // The mean of the chunk, as a difference from the origin, which is subtracted first: it may be large.
      for (int64_t c = 0; c < channels; ++c) use(c, rows, (center[c] - origin[c]) + sum[c] / rows);
    };
    for (int64_t k = 0; k < chunks; ++k) {
      of_chunk(k, [&](int64_t c, C rows, C of) { mean[c] += rows * share * of; });
    }
    for (int64_t k = 0; k < chunks; ++k) {
      of_chunk(k, [&](int64_t c, C rows, C of) {
        const C within = square[c] - sum[c] * (sum[c] / rows), difference = of - mean[c];
        variance[c] += (within < 0 ? C(0) : within) + rows * difference * difference;
      });
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
