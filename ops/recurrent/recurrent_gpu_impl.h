// Recurrences over time on GPUs: at each step a product, by cuBLASLt where it can, and a kernel for the gates. For .cu
// files.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "ops/product/matmul_gpu_impl.h"
#include "ops/recurrent/problem_impl.h"

namespace belfry::ops::recurrent {

// The product of a step: a [N, H] times weights [H, gates H], or backward, a [N, gates H] times their transpose. The
// result is Compute<T>, because 16 bits may overflow where the gates are finite.
template <class T>
class StepProduct {
 public:
  static absl::StatusOr<StepProduct> Make(const Problem& p, int64_t gates, bool backward, const KernelSpec& spec) {
    const Shape narrow = {p.n, p.h}, wide = {p.n, gates * p.h};
    const TensorSpec inputs[] = {{kDTypeOf<T>, backward ? wide : narrow}, spec.inputs[1]};
    const TensorSpec output[] = {{kDTypeOf<gpu::Compute<T>>, backward ? narrow : wide}};
    Attrs attrs;
    attrs.Set("transpose_a", false);
    attrs.Set("transpose_b", backward);
    const KernelSpec product{spec.name, attrs, inputs, output, spec.device};
    ASSIGN_OR_RETURN(Kernel kernel, (MakeGpuMatMul<T, gpu::Compute<T>>(product)));
    return StepProduct(std::move(kernel));
  }
  // The bytes of the product's workspace, a multiple of 256.
  size_t workspace_bytes() const { return (kernel_.workspace_bytes + 255) / 256 * 256; }
  // y = a weights; `workspace` has workspace_bytes() bytes.
  absl::Status Run(const KernelContext& at, const void* a, const void* weights, void* y, void* workspace) const {
    const void* const inputs[] = {a, weights};
    void* const outputs[] = {y};
    return kernel_.run({inputs, outputs, workspace, at.run, at.stream});
  }

 private:
  explicit StepProduct(Kernel kernel) : kernel_(std::move(kernel)) {}
  Kernel kernel_;
};

// Parts of a kernel's workspace at multiples of 256 bytes from its start, which a plan aligns to 64.
struct Parts {
  char* at;
  template <class T>
  T* Take(int64_t elements) {
    return reinterpret_cast<T*>(std::exchange(at, at + Bytes<T>(elements)));
  }
  template <class T>
  static size_t Bytes(int64_t elements) {
    return (static_cast<size_t>(elements) * sizeof(T) + 255) / 256 * 256;
  }
};

template <class C>
BELFRY_GPU C Sigmoid(C x) {
  return 1 / (1 + std::exp(-x));
}

// Enqueues y[i] = x[i], or 0 if x is null, for n elements.
template <class S>
absl::Status CopyOr0(Stream& stream, const S* x, int64_t n, S* y) {
  const size_t bytes = static_cast<size_t>(n) * sizeof(S);
  return x == nullptr ? gpu::SetBytes(stream, y, 0, bytes) : gpu::CopyBytes(stream, y, x, bytes);
}

// Enqueues y[i] = x[i] for n elements.
template <class T>
absl::Status WidenState(Stream& stream, int64_t n, const gpu::Stored<T>* x, gpu::Compute<T>* y) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) { y[i] = gpu::Widen(x[i]); });
}

// Enqueues y[i] = x[i], plus kept[i] unless that is null, for n elements.
template <class T>
absl::Status NarrowState(Stream& stream, int64_t n, const gpu::Compute<T>* x, const gpu::Compute<T>* kept,
                         gpu::Stored<T>* y) {
  return gpu::ForEach(stream, n,
                      [=] BELFRY_GPU(int64_t i) { y[i] = gpu::Narrow<T>(kept == nullptr ? x[i] : x[i] + kept[i]); });
}

}  // namespace belfry::ops::recurrent
