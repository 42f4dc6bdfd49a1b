#include <algorithm>
#include <cstdint>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/functors.h"

namespace belfry::ops {
namespace {

// The terms added by one launch.
template <class T, int capacity>
struct Terms {
  const gpu::Stored<T>* x[capacity];
  int count;
};

// y = (sum, unless null) + the terms from left to right. An element of every term is read before y is written, so y may
// be one of them.
template <class T, class Out, int capacity>
absl::Status AddTerms(Stream& stream, int64_t n, const Terms<T, capacity>& terms, const gpu::Compute<T>* sum,
                      gpu::Stored<Out>* y) {
  using C = gpu::Compute<T>;
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    C all = gpu::Widen(terms.x[0][i]);
    if (sum != nullptr) all = functor::Add<C>()(sum[i], all);
    for (int k = 1; k < terms.count; ++k) all = functor::Add<C>()(all, gpu::Widen(terms.x[k][i]));
    y[i] = gpu::Narrow<Out>(all);
  });
}

template <class T, int capacity>
Terms<T, capacity> TermsOf(const KernelContext& at, int first, int count) {
  Terms<T, capacity> terms{};
  terms.count = std::min(capacity, count - first);
  for (int k = 0; k < terms.count; ++k) terms.x[k] = at.input<gpu::Stored<T>>(first + k);
  return terms;
}

template <class T>
absl::StatusOr<Kernel> MakeAddN(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  constexpr int kFew = 4, kMax = 192;
  const int64_t n = spec.outputs[0].shape.elements();
  const int count = static_cast<int>(spec.inputs.size());
  if (count <= kFew) {
    return Kernel{[=](const KernelContext& at) {
      return AddTerms<T, T>(*at.stream, n, TermsOf<T, kFew>(at, 0, count), nullptr, at.output<gpu::Stored<T>>(0));
    }};
  }
  Kernel kernel;
  kernel.workspace_bytes = count <= kMax ? 0 : sizeof(C) * static_cast<size_t>(n);
  kernel.run = [=](const KernelContext& at) {
    C* sum = nullptr;
    int first = 0;
    for (; count - first > kMax; first += kMax) {
      RETURN_IF_ERROR(
          (AddTerms<T, C>(*at.stream, n, TermsOf<T, kMax>(at, first, count), sum, static_cast<C*>(at.workspace))));
      sum = static_cast<C*>(at.workspace);
    }
    return AddTerms<T, T>(*at.stream, n, TermsOf<T, kMax>(at, first, count), sum, at.output<gpu::Stored<T>>(0));
  };
  return kernel;
}

}  // namespace

void AddAddNGpuKernels(KernelTable& table) {
  table.AddKernels("AddN", Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
                               "GPU", [](auto tag) { return &MakeAddN<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
