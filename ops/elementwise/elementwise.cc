#include "ops/elementwise/elementwise_impl.h"

namespace belfry::ops {
namespace {

bool SixteenBit(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Returns x, or if it is 16-bit its elements converted to float in `block`.
const void* Widen(DType dtype, const void* x, float* block, int64_t n) {
  if (dtype == DType::kFloat16) {
    ToFloat(static_cast<const Half*>(x), block, n);
  } else if (dtype == DType::kBFloat16) {
    ToFloat(static_cast<const BFloat16*>(x), block, n);
  } else {
    return x;
  }
  return block;
}

void Narrow(DType dtype, const float* block, void* y, int64_t n) {
  if (dtype == DType::kFloat16) {
    FromFloat(block, static_cast<Half*>(y), n);
  } else {
    FromFloat(block, static_cast<BFloat16*>(y), n);
  }
}

const std::byte* At(const void* x, int64_t bytes) { return static_cast<const std::byte*>(x) + bytes; }
std::byte* At(void* x, int64_t bytes) { return static_cast<std::byte*>(x) + bytes; }

// Applies loops.map to n elements; 16-bit ones are converted to float and back.
void RunMap(const ElementLoops& loops, const void* x, void* y, int64_t n) {
  if (!SixteenBit(loops.in)) return loops.map(loops.functor.data(), x, y, n);
  alignas(64) float in[kBlock], out[kBlock];
  const auto in_size = static_cast<int64_t>(SizeOf(loops.in)), out_size = static_cast<int64_t>(SizeOf(loops.out));
  const bool narrow = SixteenBit(loops.out);
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    const void* wide = Widen(loops.in, At(x, i * in_size), in, m);
    loops.map(loops.functor.data(), wide, narrow ? static_cast<void*>(out) : At(y, i * out_size), m);
    if (narrow) Narrow(loops.out, out, At(y, i * out_size), m);
  }
}

// The same for two operands with strides `stride_a` and `stride_b`, 0 or 1.
void RunZip(const ElementLoops& loops, ElementLoops::Zip zip, int64_t stride_a, int64_t stride_b, const void* a,
            const void* b, void* y, int64_t n) {
  if (!SixteenBit(loops.in)) return zip(loops.functor.data(), a, b, y, n);
  float first[kBlock], second[kBlock], out[kBlock];
  const auto in_size = static_cast<int64_t>(SizeOf(loops.in)), out_size = static_cast<int64_t>(SizeOf(loops.out));
  const bool narrow = SixteenBit(loops.out);
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    const void* wide_a = Widen(loops.in, At(a, stride_a * i * in_size), first, stride_a == 0 ? 1 : m);
    const void* wide_b = Widen(loops.in, At(b, stride_b * i * in_size), second, stride_b == 0 ? 1 : m);
    zip(loops.functor.data(), wide_a, wide_b, narrow ? static_cast<void*>(out) : At(y, i * out_size), m);
    if (narrow) Narrow(loops.out, out, At(y, i * out_size), m);
  }
}

}  // namespace

Kernel MakeMapKernel(const KernelSpec& spec, const ElementLoops& loops) {
  const int64_t n = spec.outputs[0].shape.elements();
  const auto in_size = static_cast<int64_t>(SizeOf(loops.in)), out_size = static_cast<int64_t>(SizeOf(loops.out));
  return Kernel{[=](const KernelContext& context) {
    // Ranges of whole blocks: Eigen rounds elements that do not fill a vector differently, so their position must not
    // depend on the number of threads. For the same reason buffers are aligned.
    const int64_t blocks = (n + kBlock - 1) / kBlock;
    ParallelFor(blocks, loops.cost * static_cast<double>(std::min(n, kBlock)), [&](int64_t first, int64_t last) {
      const int64_t begin = first * kBlock, end = std::min(last * kBlock, n);
      RunMap(loops, At(context.inputs[0], begin * in_size), At(context.outputs[0], begin * out_size), end - begin);
    });
    return absl::OkStatus();
  }};
}

absl::StatusOr<Kernel> MakeZipKernel(const KernelSpec& spec, const ElementLoops& loops) {
  if (spec.outputs[0].shape.elements() == 0) return NothingToDo();
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanBroadcast(spec.inputs[0].shape, spec.inputs[1].shape));
  const ElementLoops::Zip zip = plan.stride_a == 0   ? loops.zip_first_fixed
                                : plan.stride_b == 0 ? loops.zip_second_fixed
                                                     : loops.zip;
  const auto in_size = static_cast<int64_t>(SizeOf(loops.in)), out_size = static_cast<int64_t>(SizeOf(loops.out));
  const int64_t n = plan.inner;
  if (plan.loops == 0) {
    return Kernel{[=, stride_a = plan.stride_a, stride_b = plan.stride_b](const KernelContext& context) {
      ParallelFor(n, loops.cost, [&](int64_t begin, int64_t end) {
        RunZip(loops, zip, stride_a, stride_b, At(context.inputs[0], begin * stride_a * in_size),
               At(context.inputs[1], begin * stride_b * in_size), At(context.outputs[0], begin * out_size),
               end - begin);
      });
      return absl::OkStatus();
    }};
  }
  return Kernel{[=](const KernelContext& context) {
    ParallelFor(plan.rows, static_cast<double>(n) * loops.cost, [&](int64_t begin, int64_t end) {
      plan.ForRows(begin, end, [&](int64_t row, int64_t offset_a, int64_t offset_b) {
        RunZip(loops, zip, plan.stride_a, plan.stride_b, At(context.inputs[0], offset_a * in_size),
               At(context.inputs[1], offset_b * in_size), At(context.outputs[0], row * n * out_size), n);
      });
    });
    return absl::OkStatus();
  }};
}

}  // namespace belfry::ops
