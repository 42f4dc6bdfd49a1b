// The time of a kernel on a card, from its shapes: a roofline. All constants are GpuCard's.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/compiler/program.h"
#include "trainers/prediction/gpu_card.h"

namespace belfry {

// The kind of work that limits a kernel.
enum class Work {
  kProduct,      // of matrices
  kConvolution,  // and its gradients
  kAttention,
  kReduction,    // normalisations, losses, pooling, sums: may read their inputs several times
  kElementwise,  // also copies, casts and gathers
  kUpdate,       // of variables
};
inline constexpr int kWorks = 6;
absl::string_view WorkName(Work work);  // "products", "convolutions" ...

// Variables that one launch updates, counters that it increments, and tensors whose norm it finds.
inline constexpr double kUpdatesAtOnce = 48, kCountersAtOnce = 240, kNormsAtOnce = 64;

// The demand of a node, independent of the card.
struct Demand {
  Work work = Work::kElementwise;
  double launches = 0;
  double bytes = 0;  // read from memory and written to it
  double flops = 0;
  // Only for kProduct and kConvolution: `batch` products of [m, k] and [k, n]; a convolution counts as products.
  double batch = 1, m = 0, n = 0, k = 0;
  DType dtype = DType::kFloat32;
};
// The demand of a node of a program for GPUs. Launches are those of this version's kernels (tests/trainers/prediction/
// launches_test.cc), memsets among them; a library's product, convolution or attention counts as one. Nothing for a
// node that does not run.
Demand DemandOf(const Program& program, const ProgramNode& node);
Work WorkOf(const OpDef& op);
// How often a kernel of the op reads input `index`; 0: only the elements that it writes are read.
double ReadsOf(const OpDef& op, int index);

// Seconds: the larger one of the times of `bytes` and of `flops`, and for each launch the time of the shortest kernel.
//
// Bytes go at bandwidth * bandwidth_share, or cache_speed times as fast if all fit into half of the cache, since the
// kernel before has just written them. Operations go at the peak of the dtype times a share. Products and convolutions
// are divided into tiles, of the size that takes the shortest time, over the multiprocessors: the last wave is as long
// as a full one, smaller tiles load more for each operation, and a tile's first and last steps along k hide nothing
// (docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication, "wave quantization"). Where tiles are
// few, k is split.
double SecondsOf(const Demand& demand, const GpuCard& card);

}  // namespace belfry
