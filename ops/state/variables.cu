#include <vector>

#include "framework/device/cuda/launch.h"
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

}  // namespace

void AddStateGpuKernels(KernelTable& table) {
  table.AddKernels("Assign", ForAllDTypes(&MakeAssign));
  table.AddKernels("ReadVariable", ForAllDTypes(&MakeCopy<0>));
}

}  // namespace belfry::ops
