// GPU kernels of element-wise ops, built from functors (ops/elementwise/functors.h). Only for .cu files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"
#include "ops/elementwise/broadcast_impl.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/packs_gpu_impl.h"

namespace belfry::ops {

// f of lane j of one pack, or of two.
template <class Pack, int operands, class F>
BELFRY_GPU auto OfLane(const Pack (&in)[operands], int j, const F& f) {
  if constexpr (operands == 1) {
    return f(gpu::Widen(in[0].at[j]));
  } else {
    return f(gpu::Widen(in[0].at[j]), gpu::Widen(in[1].at[j]));
  }
}

// Each thread computes a pack of results from packs of one operand, `a`, or of two of the same shape.
template <class T, class Out, int operands, class F>
absl::Status GpuMapPacks(Stream& stream, int64_t n, const gpu::Stored<T>* a, const gpu::Stored<T>* b,
                         gpu::Stored<Out>* y, F f) {
  constexpr int kLanes = kWideLanes<T>;
  const bool aligned = AreAligned({a, b, y});
  return gpu::ForEach(stream, (n + kLanes - 1) / kLanes, [=] BELFRY_GPU(int64_t i) {
    const int64_t first = i * kLanes;
    const int lanes = n - first < kLanes ? static_cast<int>(n - first) : kLanes;
    PackOf<T, kLanes> in[operands];
    for (int k = 0; k < operands; ++k) in[k] = LoadLanes<T, kLanes>((k == 0 ? a : b) + first, lanes, aligned);
    PackOf<Out, kLanes> out;
    BELFRY_UNROLL
    for (int j = 0; j < kLanes; ++j) out.at[j] = gpu::Narrow<Out>(OfLane(in, j, f));
    StoreLanes<Out, kLanes>(y + first, out, lanes, aligned);
  });
}

template <class T, class Out, class F>
absl::Status GpuMap(Stream& stream, int64_t n, const gpu::Stored<T>* x, gpu::Stored<Out>* y, F f) {
  return GpuMapPacks<T, Out, 1>(stream, n, x, nullptr, y, f);
}

// Output 0 = f(input 0), element by element. f operates on gpu::Compute<T>.
template <class T, class Out = T, class F>
Kernel GpuMapKernel(const KernelSpec& spec, F f) {
  return Kernel{[n = spec.outputs[0].shape.elements(), f](const KernelContext& at) {
    return GpuMap<T, Out>(*at.stream, n, at.input<gpu::Stored<T>>(0), at.output<gpu::Stored<Out>>(0), f);
  }};
}

// A BroadcastPlan for device code, which locates the operands of result i.
struct GpuBroadcast {
  struct Loop {
    Divider extent;
    int64_t stride_a = 0, stride_b = 0;
  };
  Divider inner;
  int64_t stride_a = 1, stride_b = 1;
  int loops = 0;
  Loop loop[BroadcastPlan::kMaxLoops];

  explicit GpuBroadcast(const BroadcastPlan& plan)
      : inner(plan.inner, plan.rows * plan.inner), stride_a(plan.stride_a), stride_b(plan.stride_b), loops(plan.loops) {
    for (int l = 0; l < loops; ++l) {
      const BroadcastPlan::Loop& from = plan.loop[l];
      loop[l] = {Divider(from.extent, plan.rows), from.stride_a, from.stride_b};
    }
  }

  // Index is uint32_t if CountsIn32Bits(number of elements), otherwise int64_t.
  template <class Index>
  BELFRY_GPU void Find(Index i, int64_t& a, int64_t& b) const {
    const auto column = static_cast<int64_t>(inner.Split(i));
    a = column * stride_a;
    b = column * stride_b;
    for (int l = loops; l-- > 0;) {
      const auto at = static_cast<int64_t>(l == 0 ? i : loop[l].extent.Split(i));
      a += at * loop[l].stride_a;
      b += at * loop[l].stride_b;
    }
  }
};

template <class T, class Out, class F>
absl::Status GpuZip(Stream& stream, int64_t n, const GpuBroadcast& plan, const gpu::Stored<T>* a,
                    const gpu::Stored<T>* b, gpu::Stored<Out>* y, F f) {
  if (plan.loops == 0 && plan.stride_a == 1 && plan.stride_b == 1) return GpuMapPacks<T, Out, 2>(stream, n, a, b, y, f);
  if (plan.loops == 0) {
    const int64_t step_a = plan.stride_a, step_b = plan.stride_b;
    return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
      y[i] = gpu::Narrow<Out>(f(gpu::Widen(a[i * step_a]), gpu::Widen(b[i * step_b])));
    });
  }
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    int64_t at_a, at_b;
    if (CountsIn32Bits(n)) {
      plan.Find(static_cast<uint32_t>(i), at_a, at_b);
    } else {
      plan.Find(i, at_a, at_b);
    }
    y[i] = gpu::Narrow<Out>(f(gpu::Widen(a[at_a]), gpu::Widen(b[at_b])));
  });
}

// Output 0 = f(input 0, input 1), element by element with broadcasting. f operates on gpu::Compute<T>.
template <class T, class Out = T, class F>
absl::StatusOr<Kernel> GpuZipKernel(const KernelSpec& spec, F f) {
  const int64_t n = spec.outputs[0].shape.elements();
  if (n == 0) return Kernel{[](const KernelContext&) { return absl::OkStatus(); }};
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanBroadcast(spec.inputs[0].shape, spec.inputs[1].shape));
  return Kernel{[n, plan = GpuBroadcast(plan), f](const KernelContext& at) {
    return GpuZip<T, Out>(*at.stream, n, plan, at.input<gpu::Stored<T>>(0), at.input<gpu::Stored<T>>(1),
                          at.output<gpu::Stored<Out>>(0), f);
  }};
}

// Registers kernels that apply F<gpu::Compute<T>> to input 0, or to inputs 0 and 1, for each T; output 0 has the same
// type.
template <template <class> class F, class... Ts>
void AddGpuMaps(KernelTable& table, absl::string_view op) {
  table.AddKernels(op, Kernels<Ts...>("GPU", [](auto tag) -> KernelFactory {
                     using T = typename decltype(tag)::type;
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return GpuMapKernel<T>(spec, F<gpu::Compute<T>>());
                     };
                   }));
}
template <template <class> class F, class... Ts>
void AddGpuZips(KernelTable& table, absl::string_view op) {
  table.AddKernels(op, Kernels<Ts...>("GPU", [](auto tag) -> KernelFactory {
                     using T = typename decltype(tag)::type;
                     return [](const KernelSpec& spec) { return GpuZipKernel<T>(spec, F<gpu::Compute<T>>()); };
                   }));
}
template <template <class> class F>
void AddFloatGpuMaps(KernelTable& table, absl::string_view op) {
  AddGpuMaps<F, float, double, Half, BFloat16>(table, op);
}
template <template <class> class F>
void AddFloatGpuZips(KernelTable& table, absl::string_view op) {
  AddGpuZips<F, float, double, Half, BFloat16>(table, op);
}
template <template <class> class F>
void AddNumericGpuMaps(KernelTable& table, absl::string_view op) {
  AddGpuMaps<F, float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(table, op);
}
template <template <class> class F>
void AddNumericGpuZips(KernelTable& table, absl::string_view op) {
  AddGpuZips<F, float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(table, op);
}

}  // namespace belfry::ops
