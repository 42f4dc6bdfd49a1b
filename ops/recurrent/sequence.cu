#include "framework/base/status.h"
#include "ops/gpu/raw_gpu_impl.h"
#include "ops/recurrent/recurrent_ops.h"
#include "ops/recurrent/sequence_impl.h"

namespace belfry::ops {
namespace {

using recurrent::Problem;

// `p.h` is in units of `bytes` bytes.
template <int bytes>
Kernel ReverseKernel(const Problem& p) {
  return Kernel{[p](const KernelContext& context) {
    const auto* const x = context.input<GpuUnit<bytes>>(0);
    const auto* const lengths = context.input<int32_t>(1);
    auto* const y = context.output<GpuUnit<bytes>>(0);
    return gpu::ForEach(*context.stream, p.n * p.t * p.h, [=] BELFRY_GPU(int64_t i) {
      const int64_t row = i / p.h, batch = row / p.t;
      y[i] = x[p.At(batch, recurrent::Reversed(row % p.t, p.Steps(lengths, batch))) + i % p.h];
    });
  }};
}

absl::StatusOr<Kernel> MakeGpuReverse(const KernelSpec& spec) {
  Problem p = recurrent::SequencesOf(spec.inputs[0].shape);
  if (p.n * p.t * p.h == 0) {
    return NothingToDo();
  }
  size_t unit = SizeOf(spec.inputs[0].dtype);
  for (; unit < kWidestUnit && p.h % 2 == 0; unit *= 2) p.h /= 2;
  return WithUnit(unit, [&](auto bytes) { return ReverseKernel<decltype(bytes)::value>(p); });
}

absl::StatusOr<Kernel> MakeGpuMask(const KernelSpec& spec) {
  const Problem p = recurrent::SequencesOf(spec.inputs[0].shape);
  return Kernel{[p](const KernelContext& context) {
    const auto* const lengths = context.input<int32_t>(1);
    bool* const y = context.output<bool>(0);
    return gpu::ForEach(*context.stream, p.n * p.t,
                        [=] BELFRY_GPU(int64_t i) { y[i] = i % p.t < p.Steps(lengths, i / p.t); });
  }};
}

}  // namespace

void AddSequenceGpuKernels(KernelTable& table) {
  table.AddKernels("ReverseSequence", AnyTypeGpuKernels(MakeGpuReverse));
  table.AddKernels("SequenceMask", AnyTypeGpuKernels(MakeGpuMask));
}

}  // namespace belfry::ops
