#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"
#include "ops/activation/activate.h"
#include "ops/activation/epilogue_gpu_impl.h"
#include "ops/gpu/divider_impl.h"

namespace belfry::ops {
namespace {

template <class T>
absl::Status BiasActivation(Stream& stream, int64_t n, const Divider& channels, const Epilogue& epilogue,
                            const gpu::Stored<T>* bias, gpu::Stored<T>* y) {
  using C = gpu::Compute<T>;
  const functor::Activate<C> activate{epilogue.activation, static_cast<C>(epilogue.alpha)};
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    int64_t row = i;
    const int64_t c = channels.Split(row);
    y[i] = gpu::Narrow<T>(activate(gpu::Widen(y[i]) + gpu::Widen(bias[c])));
  });
}

using Run = absl::Status (*)(Stream&, int64_t n, const Divider& channels, const Epilogue&, const void* bias, void* y);

template <class T>
absl::Status RunBiasActivation(Stream& stream, int64_t n, const Divider& channels, const Epilogue& epilogue,
                               const void* bias, void* y) {
  return BiasActivation<T>(stream, n, channels, epilogue, static_cast<const gpu::Stored<T>*>(bias),
                           static_cast<gpu::Stored<T>*>(y));
}

template <class T>
absl::Status AddAndMask(Stream& stream, int64_t n, const void* addend, const void* mask, void* dx) {
  using S = gpu::Stored<T>;
  const auto *const added = static_cast<const S*>(addend), *const above = static_cast<const S*>(mask);
  auto* const to = static_cast<S*>(dx);
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    const auto sum = gpu::Widen(to[i]) + (added == nullptr ? 0 : gpu::Widen(added[i]));
    to[i] = gpu::Narrow<T>(gpu::Widen(above[i]) > 0 ? sum : 0);
  });
}

using Mask = absl::Status (*)(Stream&, int64_t n, const void* addend, const void* mask, void* dx);

// Calls get with a type_identity of the dtype's C++ type.
template <class Get>
auto ForDType(DType dtype, const Get& get) {
  switch (dtype) {
    case DType::kFloat64: return get(std::type_identity<double>());
    case DType::kFloat16: return get(std::type_identity<Half>());
    case DType::kBFloat16: return get(std::type_identity<BFloat16>());
    default: return get(std::type_identity<float>());
  }
}
Run RunFor(DType dtype) {
  return ForDType(dtype, []<class T>(std::type_identity<T>) -> Run { return &RunBiasActivation<T>; });
}
Mask MaskFor(DType dtype) {
  return ForDType(dtype, []<class T>(std::type_identity<T>) -> Mask { return &AddAndMask<T>; });
}

}  // namespace

Kernel WithGpuEpilogue(Kernel kernel, const KernelSpec& spec, const Epilogue& epilogue) {
  const TensorSpec& y = spec.outputs[0];
  const int64_t n = y.shape.elements();
  const Divider channels(y.shape[-1], n);
  return Kernel{
      [run = std::move(kernel.run), finish = RunFor(y.dtype), n, channels, epilogue](const KernelContext& at) {
        RETURN_IF_ERROR(run(at));
        return finish(*at.stream, n, channels, epilogue, at.inputs[2], at.outputs[0]);
      },
      kernel.workspace_bytes};
}

Kernel WithGpuAddAndMask(Kernel kernel, const KernelSpec& spec) {
  kernel.run = [run = std::move(kernel.run), finish = MaskFor(spec.outputs[0].dtype),
                n = spec.outputs[0].shape.elements(), add = spec.inputs.size() > 4](const KernelContext& at) {
    RETURN_IF_ERROR(run(at));
    return finish(*at.stream, n, add ? at.inputs[4] : nullptr, at.inputs[3], at.outputs[0]);
  };
  kernel.in_place = false;
  return kernel;
}

}  // namespace belfry::ops
