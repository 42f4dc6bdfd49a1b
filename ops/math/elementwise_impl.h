// CPU kernels of element-wise ops, made from functors (ops/math/functors.h). Any family may use them.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <utility>

#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/graph/kernel.h"
#include "ops/math/broadcast_impl.h"

namespace belfry::ops {

template <class T>
inline constexpr bool kIsSixteenBit = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
// What elements of T are computed in: float for the 16-bit floats, else T.
template <class T>
using Compute = std::conditional_t<kIsSixteenBit<T>, float, T>;

// 16-bit floats are converted to float in blocks of this many elements, on the stack.
inline constexpr int64_t kBlock = 256;
void ToFloat(const Half* x, float* y, int64_t n);
void ToFloat(const BFloat16* x, float* y, int64_t n);
void FromFloat(const float* x, Half* y, int64_t n);
void FromFloat(const float* x, BFloat16* y, int64_t n);

template <class F>
constexpr double CostOf() {
  if constexpr (requires { F::kCost; }) {
    return F::kCost;
  } else {
    return 1;
  }
}

// y[i] = f(x[i]) for n contiguous elements; y may be x.
template <class T, class Out, class F>
void MapRun(const F& f, const T* x, Out* y, int64_t n) {
  if constexpr (kIsSixteenBit<T>) {
    float in[kBlock], out[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      ToFloat(x + i, in, m);
      if constexpr (kIsSixteenBit<Out>) {
        MapRun(f, in, out, m);
        FromFloat(out, y + i, m);
      } else {
        MapRun(f, in, y + i, m);
      }
    }
  } else if constexpr (requires(Eigen::Map<const Eigen::ArrayX<T>> a) { f.Vector(a); }) {
    Eigen::Map<Eigen::ArrayX<Out>>(y, n) = f.Vector(Eigen::Map<const Eigen::ArrayX<T>>(x, n));
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  }
}

// y[i] = f(a[i * stride_a], b[i * stride_b]) for n elements; the strides are 0 or 1, y may be a or b.
template <int stride_a, int stride_b, class T, class Out, class F>
void ZipRun(const F& f, const T* a, const T* b, Out* y, int64_t n) {
  if constexpr (kIsSixteenBit<T>) {
    float x1[kBlock], x2[kBlock], out[kBlock];
    if (stride_a == 0) ToFloat(a, x1, 1);
    if (stride_b == 0) ToFloat(b, x2, 1);
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      if (stride_a == 1) ToFloat(a + i, x1, m);
      if (stride_b == 1) ToFloat(b + i, x2, m);
      if constexpr (kIsSixteenBit<Out>) {
        ZipRun<stride_a, stride_b>(f, x1, x2, out, m);
        FromFloat(out, y + i, m);
      } else {
        ZipRun<stride_a, stride_b>(f, x1, x2, y + i, m);
      }
    }
  } else if constexpr (stride_a == 0 && stride_b == 1) {
    const T first = *a;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(first, b[i]);
  } else if constexpr (stride_a == 1 && stride_b == 0) {
    const T second = *b;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], second);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  }
}

// Output 0 = f(input 0), element by element. f works on Compute<T>.
template <class T, class Out = T, class F>
Kernel MapKernel(const KernelSpec& spec, F f) {
  const int64_t n = spec.outputs[0].shape.elements();
  return Kernel{[n, f](const KernelContext& context) {
    const T* x = context.input<T>(0);
    Out* y = context.output<Out>(0);
    ParallelFor(n, CostOf<F>(), [&](int64_t begin, int64_t end) { MapRun(f, x + begin, y + begin, end - begin); });
    return absl::OkStatus();
  }};
}

// One run per parallel range: equal shapes, or one operand with a single element.
template <int stride_a, int stride_b, class T, class Out, class F>
Kernel FlatZipKernel(int64_t n, F f) {
  return Kernel{[n, f](const KernelContext& context) {
    const T* a = context.input<T>(0);
    const T* b = context.input<T>(1);
    Out* y = context.output<Out>(0);
    ParallelFor(n, CostOf<F>(), [&](int64_t begin, int64_t end) {
      ZipRun<stride_a, stride_b>(f, a + stride_a * begin, b + stride_b * begin, y + begin, end - begin);
    });
    return absl::OkStatus();
  }};
}

template <int stride_a, int stride_b, class T, class Out, class F>
Kernel RowsZipKernel(const BroadcastPlan& plan, F f) {
  return Kernel{[plan, f](const KernelContext& context) {
    const T* a = context.input<T>(0);
    const T* b = context.input<T>(1);
    Out* y = context.output<Out>(0);
    const int64_t n = plan.inner;
    ParallelFor(plan.rows, static_cast<double>(n) * CostOf<F>(), [&](int64_t begin, int64_t end) {
      plan.ForRows(begin, end, [&](int64_t row, int64_t offset_a, int64_t offset_b) {
        ZipRun<stride_a, stride_b>(f, a + offset_a, b + offset_b, y + row * n, n);
      });
    });
    return absl::OkStatus();
  }};
}

template <int stride_a, int stride_b, class T, class Out, class F>
Kernel StridedZipKernel(const BroadcastPlan& plan, F f) {
  return plan.loops == 0 ? FlatZipKernel<stride_a, stride_b, T, Out>(plan.inner, f)
                         : RowsZipKernel<stride_a, stride_b, T, Out>(plan, f);
}

// Output 0 = f(input 0, input 1), element by element, broadcast. f works on Compute<T>.
template <class T, class Out = T, class F>
absl::StatusOr<Kernel> ZipKernel(const KernelSpec& spec, F f) {
  const int64_t n = spec.outputs[0].shape.elements();
  if (n == 0) return Kernel{[](const KernelContext&) { return absl::OkStatus(); }};
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanBroadcast(spec.inputs[0].shape, spec.inputs[1].shape));
  if (plan.stride_a == 0) return StridedZipKernel<0, 1, T, Out>(plan, f);
  if (plan.stride_b == 0) return StridedZipKernel<1, 0, T, Out>(plan, f);
  return StridedZipKernel<1, 1, T, Out>(plan, f);
}

}  // namespace belfry::ops
