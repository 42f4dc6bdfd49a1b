// Drawing random numbers on a GPU: each element gets the same words as from ForEachDraw (ops/random/draw_impl.h). Only
// for .cu files.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "framework/base/philox.h"
#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/kernel_table.h"
#include "ops/gpu/raw_gpu_impl.h"
#include "ops/random/draw_plan.h"

namespace belfry::ops {

// A DrawPlan for one run, for device code, which can read the counters.
struct GpuDraw {
  uint64_t key, run_step;
  const int64_t *step, *example;  // the counters; null if absent
  int64_t row, n;

  GpuDraw(const DrawPlan& plan, const KernelContext& context)
      : key(plan.key()),
        run_step(plan.run_step(context)),
        step(plan.step_counter(context)),
        example(plan.example_counter(context)),
        row(plan.row()),
        n(plan.elements()) {}
};

// out[i] = draw(high, low) with the words of element i; `low` is 0 unless `wide`. T is the tensor's dtype. Each call of
// the body draws one Philox block, for four elements.
template <class T, bool wide, class Draw>
absl::Status DrawOnGpu(Stream& stream, const GpuDraw& plan, Draw draw, gpu::Stored<T>* out) {
  using Pack = GpuPack<gpu::Stored<T>, 4>;
  if (plan.n == 0) return absl::OkStatus();
  // One block more than n / 4, because the first element may lie anywhere in its block.
  return gpu::ForEach(stream, (plan.n + 3) / 4 + 1, [=] BELFRY_GPU(int64_t i) {
    const uint64_t step = plan.step != nullptr ? static_cast<uint64_t>(*plan.step) : plan.run_step;
    const int64_t element = plan.example != nullptr ? *plan.example * plan.row : 0;
    const int64_t skip = element % 4, first = 4 * i - skip;
    if (first >= plan.n) return;
    const auto block = static_cast<uint64_t>((element - skip) / 4 + i);
    const std::array<uint32_t, 4> high = Philox4x32(plan.key, step, block);
    std::array<uint32_t, 4> low = {};
    if constexpr (wide) low = Philox4x32(plan.key, step | kLowWords, block);
    Pack drawn;
    for (int k = 0; k < 4; ++k) drawn.at[k] = gpu::Narrow<T>(draw(high[k], low[k]));
    if (skip == 0 && first + 4 <= plan.n) {
      reinterpret_cast<Pack*>(out)[i] = drawn;
    } else {
      for (int k = 0; k < 4; ++k) {
        if (first + k >= 0 && first + k < plan.n) out[first + k] = drawn.at[k];
      }
    }
  });
}

// Adds the kernels of a distribution, for both ops that draw from it (ops/random/draw_impl.h, AddRandomOps).
inline void AddRandomGpuKernels(KernelTable& table, absl::string_view op, const std::vector<KernelDef>& kernels) {
  table.AddKernels(op, kernels);
  table.AddKernels(RandomToName(op), kernels);
}

template <class T, bool wide, class Draw>
Kernel GpuDrawKernel(const KernelSpec& spec, Draw draw) {
  return Kernel{[plan = DrawPlan(spec), draw](const KernelContext& context) {
                  return DrawOnGpu<T, wide>(*context.stream, GpuDraw(plan, context), draw,
                                            context.output<gpu::Stored<T>>(0));
                },
                0, DrawPlan(spec).uses_run()};
}

}  // namespace belfry::ops
