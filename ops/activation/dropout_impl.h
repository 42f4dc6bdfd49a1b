#pragma once

#include <cmath>
#include <cstdint>

#include "framework/base/philox.h"
#include "framework/graph/kernel.h"

namespace belfry::ops {

// The mask of a Dropout node. Element j of the example with index e in the global batch is kept if word j % 4 of the
// Philox block with counter (step, e 2^32 + j / 4) is at least `threshold`.
struct DropoutMask {
  uint64_t key;
  uint64_t threshold;  // rate 2^32: words below it drop their element
  double scale;
  int64_t examples, size;  // size: elements per example
  int counters;            // number of counter inputs
  bool per_step;

  explicit DropoutMask(const KernelSpec& spec) {
    const Shape& shape = spec.outputs[0].shape;
    const double rate = spec.attrs.Float("rate");
    key = RandomKey(static_cast<uint64_t>(spec.attrs.Int("seed")), spec.attrs.String("key"));
    threshold = static_cast<uint64_t>(std::ldexp(rate, 32));
    scale = 1 / (1 - rate);
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
