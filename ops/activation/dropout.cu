#include "framework/base/status.h"
#include "ops/activation/activation_ops.h"
#include "ops/activation/dropout_impl.h"
#include "ops/gpu/index_gpu_impl.h"
#include "ops/gpu/raw_gpu_impl.h"

namespace belfry::ops {
namespace {

// A DropoutMask for one run, for device code, which can read the counters.
struct GpuMask {
  uint64_t key, run_step;
  DropoutThreshold threshold;
  const int64_t *step, *first_example;  // the counters; null if absent
  int64_t size, blocks;                 // elements per example, and Philox blocks that cover them
  Divider by_blocks;
};

// Each call of the body draws one Philox block, for eight elements.
template <class T, bool whole_blocks, class Index>
absl::Status Drop(Stream& stream, int64_t examples, const GpuMask& mask, gpu::Compute<T> scale, const gpu::Stored<T>* x,
                  gpu::Stored<T>* y) {
  using C = gpu::Compute<T>;
  return gpu::ForEach(stream, examples * mask.blocks, [=] BELFRY_GPU(int64_t i) {
    constexpr int kPack = 4;
    using Pack = GpuPack<gpu::Stored<T>, kPack>;
    const auto example = static_cast<int64_t>(mask.by_blocks.Quotient(static_cast<Index>(i)));
    const int64_t block = i - example * mask.blocks;
    const uint64_t step = mask.step != nullptr ? static_cast<uint64_t>(*mask.step) : mask.run_step;
    const auto index = static_cast<uint64_t>((mask.first_example != nullptr ? *mask.first_example : 0) + example);
    const auto words = Philox4x32(mask.key, step, (index << 32) + static_cast<uint64_t>(block));
    // An extended lambda may not capture a variable in `if constexpr` first.
    const C factor = scale;
    const gpu::Stored<T>* const from = x;
    gpu::Stored<T>* const to = y;
    const int64_t begin = kDropoutsPerBlock * block, at = example * mask.size + begin;
    const auto keeps = [&](int k) {
      const uint32_t half = words[k / 2] >> (k % 2 * 16) & 0xffff;
      return half == mask.threshold.high ? KeepsTie(mask.threshold, mask.key, step, index, begin + k)
                                         : half > mask.threshold.high;
    };
    if constexpr (whole_blocks) {
      for (int first = 0; first < kDropoutsPerBlock; first += kPack) {
        Pack pack = *reinterpret_cast<const Pack*>(from + at + first);
        for (int k = 0; k < kPack; ++k) {
          pack.at[k] = gpu::Narrow<T>(keeps(first + k) ? gpu::Widen(pack.at[k]) * factor : C(0));
        }
        *reinterpret_cast<Pack*>(to + at + first) = pack;
      }
    } else {
      for (int k = 0; k < kDropoutsPerBlock; ++k) {
        if (begin + k >= mask.size) return;
        to[at + k] = gpu::Narrow<T>(keeps(k) ? gpu::Widen(from[at + k]) * factor : C(0));
      }
    }
  });
}

template <class T, bool whole_blocks, class Index>
Kernel DropoutKernel(const DropoutMask& mask) {
  return Kernel{[mask, blocks = (mask.size + kDropoutsPerBlock - 1) / kDropoutsPerBlock](const KernelContext& context) {
                  GpuMask on_gpu = {.key = mask.key,
                                    .run_step = mask.run_step(context),
                                    .threshold = mask.threshold,
                                    .step = mask.step_counter(context),
                                    .first_example = mask.example_counter(context),
                                    .size = mask.size,
                                    .blocks = blocks,
                                    .by_blocks = Divider(blocks, mask.examples * blocks)};
                  return Drop<T, whole_blocks, Index>(
                      *context.stream, mask.examples, on_gpu, static_cast<gpu::Compute<T>>(mask.scale),
                      context.input<gpu::Stored<T>>(0), context.output<gpu::Stored<T>>(0));
                },
                0, mask.uses_run()};
}

template <class T>
absl::StatusOr<Kernel> MakeDropout(const KernelSpec& spec) {
  const DropoutMask mask(spec);
  const bool small = CountsIn32Bits(mask.examples * ((mask.size + kDropoutsPerBlock - 1) / kDropoutsPerBlock));
  if (mask.size % kDropoutsPerBlock == 0) {
    return small ? DropoutKernel<T, true, uint32_t>(mask) : DropoutKernel<T, true, int64_t>(mask);
  }
  return small ? DropoutKernel<T, false, uint32_t>(mask) : DropoutKernel<T, false, int64_t>(mask);
}

}  // namespace

void AddDropoutGpuKernels(KernelTable& table) {
  table.AddKernels("Dropout", Kernels<float, double, Half, BFloat16>(
                                  "GPU", [](auto tag) { return &MakeDropout<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
