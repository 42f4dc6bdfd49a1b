// CPU kernels of element-wise ops, built from functors (ops/elementwise/functors.h), for use by any family.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/graph/kernel.h"
#include "ops/common/compute_impl.h"
#include "ops/elementwise/broadcast_impl.h"
#include "ops/elementwise/registers_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {

// True for functors over T with an overload of OnRegister.
template <class F, class T>
inline constexpr bool kOnRegisters = false;
template <class F>
inline constexpr bool kOnRegisters<F, float> = requires(const F& f, simd::Vector<float>::Lanes x) {
  OnRegister(f, x);
};
template <class F>
inline constexpr bool kOnRegisters<F, double> = requires(const F& f, simd::Vector<double>::Lanes x) {
  OnRegister(f, x);
};

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
    alignas(64) float in[kBlock], out[kBlock];
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
  } else if constexpr (kOnRegisters<F, T>) {
    simd::Map<T>(n, x, y, [&f](auto v) { return OnRegister(f, v); });
  } else if constexpr (requires(Eigen::Map<const Eigen::ArrayX<T>> a) { f.Vector(a); }) {
    Eigen::Map<Eigen::ArrayX<Out>>(y, n) = f.Vector(Eigen::Map<const Eigen::ArrayX<T>>(x, n));
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  }
}

// y[i] = f(a[i * stride_a], b[i * stride_b]) for n elements. Strides are 0 or 1; y may be a or b.
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

// A type-erased element-wise kernel. Only the innermost loops are compiled for each functor and type, because hundreds
// of (op, dtype) pairs share all the code around them. Functors are small and trivially copyable.
struct ElementLoops {
  // Loops over n contiguous elements of Compute<T>, where `f` is the functor. The variants of Zip keep no operand, the
  // first, or the second fixed.
  using Map = void (*)(const void* f, const void* x, void* y, int64_t n);
  using Zip = void (*)(const void* f, const void* a, const void* b, void* y, int64_t n);
  static constexpr size_t kFunctorBytes = 32;

  Map map = nullptr;
  Zip zip = nullptr, zip_first_fixed = nullptr, zip_second_fixed = nullptr;
  DType in = DType::kFloat32, out = DType::kFloat32;
  double cost = 1;
  alignas(16) std::array<std::byte, kFunctorBytes> functor{};
};
Kernel MakeMapKernel(const KernelSpec& spec, const ElementLoops& loops);
absl::StatusOr<Kernel> MakeZipKernel(const KernelSpec& spec, const ElementLoops& loops);

template <class T, class Out, class F>
ElementLoops LoopsOf(const F& f) {
  static_assert(std::is_trivially_copyable_v<F> && sizeof(F) <= ElementLoops::kFunctorBytes);
  ElementLoops loops{.in = kDTypeOf<T>, .out = kDTypeOf<Out>, .cost = CostOf<F>()};
  std::memcpy(loops.functor.data(), &f, sizeof(F));
  return loops;
}

// The loop that a kernel of one operand needs.
template <class T, class Out = T, class F>
ElementLoops MapLoops(const F& f) {
  ElementLoops loops = LoopsOf<T, Out>(f);
  loops.map = [](const void* functor, const void* x, void* y, int64_t n) {
    const F own = *static_cast<const F*>(functor);  // a copy, which writes to y cannot change
    MapRun(own, static_cast<const Compute<T>*>(x), static_cast<Compute<Out>*>(y), n);
  };
  return loops;
}

// Output 0 = f(input 0), element by element. f operates on Compute<T>.
template <class T, class Out = T, class F>
Kernel MapKernel(const KernelSpec& spec, F f) {
  return MakeMapKernel(spec, MapLoops<T, Out>(f));
}

template <int stride_a, int stride_b, class In, class Result, class F>
void ZipLoop(const void* functor, const void* a, const void* b, void* y, int64_t n) {
  const F own = *static_cast<const F*>(functor);  // a copy, which writes to y cannot change
  ZipRun<stride_a, stride_b>(own, static_cast<const In*>(a), static_cast<const In*>(b), static_cast<Result*>(y), n);
}

// Output 0 = f(input 0, input 1), element by element with broadcasting. f operates on Compute<T>.
template <class T, class Out = T, class F>
absl::StatusOr<Kernel> ZipKernel(const KernelSpec& spec, F f) {
  ElementLoops loops = LoopsOf<T, Out>(f);
  loops.zip = &ZipLoop<1, 1, Compute<T>, Compute<Out>, F>;
  loops.zip_first_fixed = &ZipLoop<0, 1, Compute<T>, Compute<Out>, F>;
  loops.zip_second_fixed = &ZipLoop<1, 0, Compute<T>, Compute<Out>, F>;
  return MakeZipKernel(spec, loops);
}

}  // namespace belfry::ops
