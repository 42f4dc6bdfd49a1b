// Options of the compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry {

// Smaller tensors stay in a cache from one element-wise op to the next (benchmarks: chains of three to twenty ops are
// as fast one by one up to here, and up to 3 times slower from 2^21 elements on).
inline constexpr int64_t kFuseFrom = int64_t{1} << 16;

// Values that the backward pass computes again instead of keeping them from the forward pass: time for memory.
enum class Recompute {
  kNone,
  kCheap,  // results that need no convolution or matrix product to be computed from kept values:
           // normalisations, activations, sums
  kSqrt,   // all except results that cross from one segment to the next, with sqrt(n) segments for n convolutions and
           // products (Chen et al., "Training deep nets with sublinear memory cost", 2016): about one more forward pass
};
absl::StatusOr<Recompute> ParseRecompute(absl::string_view name);  // "none", "cheap", "sqrt"

// Results that depend only on constants, which are computed when a plan is compiled and kept as long as it.
enum class Fold {
  kSmall,    // up to 4 KiB
  kWeights,  // and those that take no more memory than the constants: for models whose weights are constants
};

struct CompileOptions {
  bool fuse = true;                           // passes and rewrites that make one node of several
  int64_t fuse_elementwise_from = kFuseFrom;  // elements of a result
  Recompute recompute = Recompute::kNone;
  // Bytes that the plan may take on each device, beside variables; 0: no limit. A plan that needs more computes results
  // again instead of keeping them (RecomputeWithin); one that does not reach the limit so takes as little as it can.
  size_t arena_limit = 0;
  Fold fold = Fold::kSmall;
  // Proves that the plan computes the program (verify/verify.h), and logs the certificate. Without it, that is done in
  // silence in debug builds, and where the environment variable BELFRY_VERIFY_PLANS is set, as in tests.
  bool verify = false;
  // If not empty: a directory, created if it does not exist, to which the program is written after every pass, as text
  // and as Graphviz, and the plan at the end.
  std::string dump_directory = {};
};

}  // namespace belfry
