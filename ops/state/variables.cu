#include <vector>

#include "ops/elementwise/elementwise_gpu_impl.h"
#include "ops/elementwise/functors.h"
#include "ops/only_if.h"
#include "ops/state/state_ops.h"

namespace belfry::ops {
namespace {

// Copies input `from` over output 0.
template <int from>
absl::StatusOr<Kernel> MakeCopy(const KernelSpec& spec) {
  return Kernel{[bytes = spec.outputs[0].bytes()](const KernelContext& at) {
    return gpu::CopyBytes(*at.stream, at.outputs[0], at.inputs[from], bytes);
  }};
}

std::vector<KernelDef> ForAllDTypes(KernelFactory make) {
  std::vector<KernelDef> kernels;
  for (DType dtype : kAllDTypes) kernels.push_back({"GPU", dtype, make});
  return kernels;
}

absl::Status CopyIf(Stream& stream, int64_t bytes, const bool* only_if, char* to, const char* from) {
  return gpu::ForEach(stream, bytes, [=] BELFRY_GPU(int64_t i) {
    if (*only_if) to[i] = from[i];
  });
}

absl::StatusOr<Kernel> MakeAssign(const KernelSpec& spec) {
  const Condition condition(spec, 2);
  if (!condition.given()) return MakeCopy<1>(spec);
  return Kernel{[condition, bytes = static_cast<int64_t>(spec.outputs[0].bytes())](const KernelContext& at) {
    return CopyIf(*at.stream, bytes, condition.At(at), at.ref<char>(0), at.input<char>(1));
  }};
}

template <class T, class F>
absl::Status Accumulate(Stream& stream, int64_t n, const bool* only_if, gpu::Stored<T>* variable,
                        const gpu::Stored<T>* value, F f) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    if (only_if != nullptr && !*only_if) return;
    variable[i] = gpu::Narrow<T>(f(gpu::Widen(variable[i]), gpu::Widen(value[i])));
  });
}

template <class T, template <class> class F>
absl::StatusOr<Kernel> MakeAccumulate(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  return Kernel{[n = spec.outputs[0].shape.elements(), condition = Condition(spec, 2)](const KernelContext& at) {
    return Accumulate<T>(*at.stream, n, condition.At(at), at.ref<S>(0), at.input<S>(1), F<gpu::Compute<T>>());
  }};
}

template <template <class> class F>
std::vector<KernelDef> AccumulateKernels() {
  return Kernels<float, double, Half, BFloat16, int32_t, int64_t>(
      "GPU", [](auto tag) { return &MakeAccumulate<typename decltype(tag)::type, F>; });
}

}  // namespace

void AddStateGpuKernels(KernelTable& table) {
  table.AddKernels("Assign", ForAllDTypes(&MakeAssign));
  table.AddKernels("ReadVariable", ForAllDTypes(&MakeCopy<0>));
  table.AddKernels("AssignAdd", AccumulateKernels<functor::Add>());
  table.AddKernels("AssignSub", AccumulateKernels<functor::Sub>());
}

}  // namespace belfry::ops
