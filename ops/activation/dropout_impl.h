#pragma once

#include <cmath>
#include <cstdint>

#include "framework/base/philox.h"
#include "framework/graph/kernel.h"

namespace belfry::ops {

// The mask of a Dropout node. Element j of the example with index e in the global batch is kept if a number of 32 bits
// is at least rate 2^32. Its upper half is half j % 8 of the Philox block with counter (step, e 2^32 + j / 8), from the
// lowest bits up. These decide except where they equal the threshold's, once in 65,536 elements, so the lower half, of
// the block TieBlock(j), is drawn only then.
struct DropoutThreshold {
  uint32_t high, low;  // rate 2^32 = high 2^16 + low

  explicit DropoutThreshold(double rate)
      : high(static_cast<uint32_t>(std::ldexp(rate, 16))), low(static_cast<uint32_t>(std::ldexp(rate, 32)) & 0xffff) {}
};
inline constexpr int64_t kDropoutsPerBlock = 8;

// The counters of these blocks are larger than those of any example's upper halves.
constexpr uint64_t TieBlock(uint64_t example, int64_t element) {
  return (example << 32) + (uint64_t{1} << 31) + static_cast<uint64_t>(element);
}
constexpr bool KeepsTie(const DropoutThreshold& threshold, uint64_t key, uint64_t step, uint64_t example, int64_t j) {
  return (Philox4x32(key, step, TieBlock(example, j))[0] & 0xffff) >= threshold.low;
}

struct DropoutMask {
  uint64_t key;
  DropoutThreshold threshold;
  double scale;
  int64_t examples, size;  // size: elements per example
  int counters;            // number of counter inputs
  bool per_step;

  explicit DropoutMask(const KernelSpec& spec) : threshold(spec.attrs.Float("rate")) {
    const Shape& shape = spec.outputs[0].shape;
    key = RandomKey(static_cast<uint64_t>(spec.attrs.Int("seed")), spec.attrs.String("key"));
    scale = 1 / (1 - spec.attrs.Float("rate"));
    examples = shape.rank() == 0 ? 1 : shape[0];
    size = shape.rank() == 0 ? 1 : shape.elements(1, shape.rank());
    counters = static_cast<int>(spec.inputs.size()) - 1;
    per_step = spec.attrs.Bool("per_step");
  }

  // The step and the first example, on CPUs, where the host can read the counters.
  uint64_t Step(const KernelContext& context) const {
    return per_step && counters > 0 ? static_cast<uint64_t>(*step_counter(context)) : run_step(context);
  }
  int64_t FirstExample(const KernelContext& context) const { return counters > 1 ? *example_counter(context) : 0; }

  // The same for GPUs: the step is *step_counter, or run_step if that is null; the first example is *example_counter,
  // or 0.
  const int64_t* step_counter(const KernelContext& context) const {
    return per_step && counters > 0 ? context.input<int64_t>(1) : nullptr;
  }
  const int64_t* example_counter(const KernelContext& context) const {
    return counters > 1 ? context.input<int64_t>(2) : nullptr;
  }
  bool uses_run() const { return per_step && counters == 0; }  // Kernel::uses_run
  uint64_t run_step(const KernelContext& context) const { return per_step ? context.run : 0; }
};

}  // namespace belfry::ops
