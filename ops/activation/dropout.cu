#include <array>

#include "framework/base/status.h"
#include "framework/device/cuda/registers.h"
#include "ops/activation/activation_ops.h"
#include "ops/activation/dropout_impl.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/packs_gpu_impl.h"

namespace belfry::ops {
namespace {

// A DropoutMask for one run, for device code, which can read the counters.
struct GpuMask {
  uint64_t key, run_step;
  DropoutThreshold threshold;
  const int64_t *step, *first_example;  // the counters; null if absent
  int64_t size, blocks;                 // elements per example, and Philox blocks that cover them
  Divider by_blocks;

  // The halves of the block of elements [begin, begin + kDropoutsPerBlock) of an example. Those of elements that are
  // kept are above threshold.high, the others are not.
  BELFRY_GPU std::array<uint32_t, kDropoutsPerBlock> Halves(uint64_t at_step, uint64_t example, uint64_t block) const {
    const auto words = Philox4x32(key, at_step, (example << 32) + block);
    std::array<uint32_t, kDropoutsPerBlock> halves{};
    bool tied = false;
    BELFRY_UNROLL
    for (int k = 0; k < kDropoutsPerBlock; ++k) {
      halves[k] = k % 2 == 0 ? words[k / 2] & 0xffff : words[k / 2] >> 16;
      tied |= halves[k] == threshold.high;
    }
    if (tied) {  // seldom
      uint32_t ties = 0, kept = 0;
      BELFRY_UNROLL
      for (int k = 0; k < kDropoutsPerBlock; ++k) ties |= (halves[k] == threshold.high ? 1u : 0u) << k;
      const auto begin = static_cast<int64_t>(block) * kDropoutsPerBlock;
      for (int k = 0; ties >> k != 0; ++k) {
        if ((ties >> k & 1) != 0 && KeepsTie(threshold, key, at_step, example, begin + k)) kept |= 1u << k;
      }
      BELFRY_UNROLL
      for (int k = 0; k < kDropoutsPerBlock; ++k) {
        if ((kept >> k & 1) != 0) halves[k] = 0x10000;
      }
    }
    return halves;
  }
};

// Each call of the body draws one Philox block, for eight elements. `packs`: they are whole packs of 16 bytes.
template <class T, bool packs, class Index>
absl::Status Drop(Stream& stream, int64_t examples, const GpuMask& mask, gpu::Compute<T> scale, const gpu::Stored<T>* x,
                  gpu::Stored<T>* y) {
  using C = gpu::Compute<T>;
  return gpu::ForEach(stream, examples * mask.blocks, [=] BELFRY_GPU(int64_t i) {
    constexpr int kPack = kWidestUnit / static_cast<int>(sizeof(gpu::Stored<T>));
    auto example = static_cast<Index>(i);
    const Index block = mask.by_blocks.Split(example);
    const uint64_t step = mask.step != nullptr ? static_cast<uint64_t>(*mask.step) : mask.run_step;
    const auto index = static_cast<uint64_t>((mask.first_example != nullptr ? *mask.first_example : 0) + example);
    const auto drop = [&mask, factor = scale](gpu::Stored<T> from, uint32_t half) {
      const C scaled = gpu::Widen(from) * factor;
      return gpu::Narrow<T>(half > mask.threshold.high ? scaled : C(0));
    };
    // An extended lambda may not capture a variable in `if constexpr` first.
    const gpu::Stored<T>* const from = x;
    gpu::Stored<T>* const to = y;
    if constexpr (packs) {
      PackOf<T, kPack> taken[kDropoutsPerBlock / kPack];
      BELFRY_UNROLL
      for (int k = 0; k < kDropoutsPerBlock; k += kPack) {
        taken[k / kPack] = PackAt<T, kPack>(from + kDropoutsPerBlock * i + k);
      }
      const auto halves = mask.Halves(step, index, static_cast<uint64_t>(block));
      BELFRY_UNROLL
      for (int k = 0; k < kDropoutsPerBlock; ++k) {
        gpu::Stored<T>& value = taken[k / kPack].at[k % kPack];
        value = drop(value, halves[k]);
      }
      BELFRY_UNROLL
      for (int k = 0; k < kDropoutsPerBlock; k += kPack) {
        StorePack<T, kPack>(to + kDropoutsPerBlock * i + k, taken[k / kPack]);
      }
    } else {
      const auto halves = mask.Halves(step, index, static_cast<uint64_t>(block));
      const int64_t begin = kDropoutsPerBlock * static_cast<int64_t>(block), rest = mask.size - begin;
      const int64_t at = static_cast<int64_t>(example) * mask.size + begin;
      BELFRY_UNROLL
      for (int k = 0; k < kDropoutsPerBlock; ++k) {
        if (k < rest) to[at + k] = drop(from[at + k], halves[k]);
      }
    }
  });
}

template <class T, class Index>
Kernel DropoutKernel(const DropoutMask& mask) {
  using S = gpu::Stored<T>;
  return Kernel{[mask, blocks = (mask.size + kDropoutsPerBlock - 1) / kDropoutsPerBlock](const KernelContext& context) {
                  GpuMask on_gpu = {.key = mask.key,
                                    .run_step = mask.run_step(context),
                                    .threshold = mask.threshold,
                                    .step = mask.step_counter(context),
                                    .first_example = mask.example_counter(context),
                                    .size = mask.size,
                                    .blocks = blocks,
                                    .by_blocks = Divider(blocks, mask.examples * blocks)};
                  const auto scale = static_cast<gpu::Compute<T>>(mask.scale);
                  const S* x = context.input<S>(0);
                  S* y = context.output<S>(0);
                  return mask.size % kDropoutsPerBlock == 0 && AreAligned({x, y})
                             ? Drop<T, true, Index>(*context.stream, mask.examples, on_gpu, scale, x, y)
                             : Drop<T, false, Index>(*context.stream, mask.examples, on_gpu, scale, x, y);
                },
                0, mask.uses_run()};
}

template <class T>
absl::StatusOr<Kernel> MakeDropout(const KernelSpec& spec) {
  const DropoutMask mask(spec);
  const bool small = CountsIn32Bits(mask.examples * ((mask.size + kDropoutsPerBlock - 1) / kDropoutsPerBlock));
  return small ? DropoutKernel<T, uint32_t>(mask) : DropoutKernel<T, int64_t>(mask);
}

}  // namespace

void AddDropoutGpuKernels(KernelTable& table) {
  table.AddKernels("Dropout", Kernels<float, double, Half, BFloat16>(
                                  "GPU", [](auto tag) { return &MakeDropout<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
