#include "framework/base/numeric/round_to_odd.h"
#include "framework/base/status.h"
#include "ops/copy/convert.h"
#include "ops/copy/copy_ops.h"
#include "ops/copy/element_bits.h"
#include "ops/gpu/raw_gpu_impl.h"

namespace belfry::ops {
namespace {

Kernel FillKernel(const KernelSpec& spec, double value) {
  const TensorSpec& output = spec.outputs[0];
  return Kernel{[n = output.shape.elements(), size = SizeOf(output.dtype),
                 bits = ElementBits(value, output.dtype)](const KernelContext& context) {
    return GpuFill(*context.stream, context.outputs[0], n, size, bits);
  }};
}

absl::StatusOr<Kernel> MakeFill(const KernelSpec& spec) { return FillKernel(spec, spec.attrs.Float("value")); }
absl::StatusOr<Kernel> MakeZeros(const KernelSpec& spec) { return FillKernel(spec, 0); }
absl::StatusOr<Kernel> MakeOnes(const KernelSpec& spec) { return FillKernel(spec, 1); }

template <class T>
BELFRY_GPU gpu::Stored<T> ElementOf(RangeMath<T> value) {
  if constexpr (gpu::kIsSixteenBit<T>) {
    return gpu::Narrow<T>(RoundToOdd(value));
  } else {
    return ConvertNumber<T>(value);
  }
}

template <class T>
absl::Status Count(Stream& stream, int64_t n, RangeMath<T> start, RangeMath<T> delta, gpu::Stored<T>* y) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) { y[i] = ElementOf<T>(RangeElement(start, delta, i)); });
}

template <class T>
absl::StatusOr<Kernel> MakeRange(const KernelSpec& spec) {
  using R = RangeMath<T>;
  return Kernel{[n = spec.outputs[0].shape.elements(), start = static_cast<R>(spec.attrs.Float("start")),
                 delta = static_cast<R>(spec.attrs.Float("delta"))](const KernelContext& context) {
    return Count<T>(*context.stream, n, start, delta, context.output<gpu::Stored<T>>(0));
  }};
}

// A carrier has no elements.
absl::StatusOr<Kernel> MakeCarrier(const KernelSpec&) { return NothingToDo(); }

}  // namespace

absl::Status GpuFill(Stream& stream, void* to, int64_t n, size_t size, uint64_t bits) {
  const uint64_t word = RepeatedBits(bits, size);
  const int64_t bytes = n * static_cast<int64_t>(size), units = bytes / 16;
  if (word == (word & 0xff) * 0x0101010101010101) {
    return gpu::SetBytes(stream, to, static_cast<unsigned char>(word & 0xff), static_cast<size_t>(bytes));
  }
  auto* const whole = static_cast<GpuUnit<16>*>(to);
  auto* const rest = static_cast<GpuUnit<1>*>(to) + 16 * units;
  return gpu::ForEach(stream, units + bytes % 16, [=] BELFRY_GPU(int64_t i) {
    if (i < units) {
      whole[i] = GpuUnit<16>{word, word};
    } else {
      const int64_t byte = i - units;
      rest[byte] = GpuUnit<1>{static_cast<uint8_t>(word >> (8 * (byte % 8)))};
    }
  });
}

void AddConstantGpuKernels(KernelTable& table) {
  table.AddKernels("Extents", AnyTypeGpuKernels(MakeCarrier));
  table.AddKernels("Fill", AnyTypeGpuKernels(MakeFill));
  table.AddKernels("ZerosLike", AnyTypeGpuKernels(MakeZeros));
  table.AddKernels("OnesLike", AnyTypeGpuKernels(MakeOnes));
  table.AddKernels("Range", Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
                                "GPU", [](auto tag) { return &MakeRange<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
