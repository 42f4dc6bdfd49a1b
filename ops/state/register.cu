#include <vector>

#include "ops/gpu/families.h"
#include "ops/math/elementwise_gpu_impl.h"
#include "ops/math/functors.h"

namespace belfry::ops {
namespace {

// Copies input `from` over output 0: Assign (from the value) and ReadVariable (from the variable).
template <int from>
absl::StatusOr<Kernel> MakeCopy(const KernelSpec& spec) {
  return Kernel{[bytes = spec.outputs[0].bytes()](const KernelContext& at) {
    return gpu::CopyBytes(*at.stream, at.outputs[0], at.inputs[from], bytes);
  }};
}

template <int from>
std::vector<KernelDef> CopyKernels() {
  std::vector<KernelDef> kernels;
  for (DType dtype : kAllDTypes) kernels.push_back({"GPU", dtype, &MakeCopy<from>});
  return kernels;
}

template <class T, class F>
absl::Status Accumulate(Stream& stream, int64_t n, gpu::Stored<T>* variable, const gpu::Stored<T>* value, F f) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    variable[i] = gpu::Narrow<T>(f(gpu::Widen(variable[i]), gpu::Widen(value[i])));
  });
}

template <class T, template <class> class F>
absl::StatusOr<Kernel> MakeAccumulate(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  return Kernel{[n = spec.outputs[0].shape.elements()](const KernelContext& at) {
    return Accumulate<T>(*at.stream, n, at.ref<S>(0), at.input<S>(1), F<gpu::Compute<T>>());
  }};
}

template <template <class> class F>
std::vector<KernelDef> AccumulateKernels() {
  return Kernels<float, double, Half, BFloat16, int32_t, int64_t>(
      "GPU", [](auto tag) { return &MakeAccumulate<typename decltype(tag)::type, F>; });
}

}  // namespace

void AddStateGpuKernels(OpRegistry& registry) {
  registry.AddKernels("Assign", CopyKernels<1>());
  registry.AddKernels("ReadVariable", CopyKernels<0>());
  registry.AddKernels("AssignAdd", AccumulateKernels<functor::Add>());
  registry.AddKernels("AssignSub", AccumulateKernels<functor::Sub>());
}

}  // namespace belfry::ops
