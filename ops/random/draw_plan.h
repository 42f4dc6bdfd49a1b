// The assignment of random words to the elements of a tensor, on any device. Also for kernels elsewhere that draw
// numbers.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

// The name of the op that draws what `op` does, in a shape that is an input: "RandomNormalTo".
inline std::string RandomToName(absl::string_view op) { return absl::StrCat(op, "To"); }

// The start of the draws of one run of a kernel.
struct DrawOrigin {
  uint64_t step = 0;
  int64_t element = 0;  // index of the tensor's first element
};

// Element j draws word j % 4 of the Philox block (key, step, j / 4). Distributions that need 64 bits take their low
// words from the same position of a second sequence, in which the highest bit of the step is set. A value.
inline constexpr uint64_t kLowWords = uint64_t{1} << 63;
class DrawPlan {
 public:
  // From the attributes "seed", "key", "per_step" and the counters, which are the node's last inputs.
  explicit DrawPlan(const KernelSpec& spec);

  uint64_t key() const { return key_; }
  int64_t elements() const { return elements_; }
  int64_t row() const { return row_; }  // elements per example

  // For CPUs, where the host can read the counters.
  DrawOrigin Origin(const KernelContext& context) const;

  // For GPUs: the step is *step_counter, or run_step if that is null; the first element is *example_counter * row(), or
  // 0.
  const int64_t* step_counter(const KernelContext& context) const {
    return counters_ > 0 ? context.input<int64_t>(first_counter_) : nullptr;
  }
  const int64_t* example_counter(const KernelContext& context) const {
    return counters_ > 1 ? context.input<int64_t>(first_counter_ + 1) : nullptr;
  }
  bool uses_run() const { return per_step_ && counters_ == 0; }  // Kernel::uses_run
  uint64_t run_step(const KernelContext& context) const { return per_step_ ? context.run : 0; }

 private:
  uint64_t key_;
  int64_t elements_, row_;
  int first_counter_, counters_;
  bool per_step_;
};

}  // namespace belfry::ops
