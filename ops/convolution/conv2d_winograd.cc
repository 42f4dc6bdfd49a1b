#include "framework/base/half.h"
#include "framework/base/tensor.h"
#include "framework/device/device.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/conv2d_winograd_impl.h"
#include "ops/onednn/primitive_kernel_impl.h"
#include "ops/winograd/winograd_impl.h"

namespace belfry::ops {
namespace {

using winograd::Convolution;
using winograd::Pass;

bool Computes(const KernelSpec& spec, const onednn::Conv2DShape& shape, Pass pass) {
  return HasElements(spec) && (spec.device == nullptr || spec.device->math().winograd) && IsBest(shape, pass);
}

// Calls make.operator()<T>() with the C++ type of the images.
template <class Make>
Kernel ForDType(DType dtype, const Make& make) {
  return dtype == DType::kFloat32 ? make.template operator()<float>() : make.template operator()<BFloat16>();
}

// The transformed filter of a forward convolution if that is a constant; no elements if it is not, or if there is no
// memory for it.
template <class T>
Tensor TransformedConstant(const KernelSpec& spec, const Convolution<T>& convolution) {
  const T* const weights = static_cast<const T*>(spec.constant(1));
  if (weights == nullptr) return Tensor();
  absl::StatusOr<Tensor> filter = Tensor::Allocate(DType::kFloat32, {convolution.filter_floats()});
  absl::StatusOr<Tensor> workspace =
      Tensor::Allocate(DType::kUInt8, {static_cast<int64_t>(convolution.workspace_bytes())});
  if (!filter.ok() || !workspace.ok()) return Tensor();
  convolution.TransformWeights(weights, filter->data<float>(), workspace->raw());
  return *std::move(filter);
}

std::function<bool(const KernelSpec&)> ByWinograd(Pass pass) {
  return [pass](const KernelSpec& spec) {
    return Computes(spec, Conv2DGeometry(spec.attrs, spec.inputs[0], spec.inputs[1].shape), pass);
  };
}

}  // namespace

std::function<bool(const KernelSpec&)> ForwardByWinograd() { return ByWinograd(Pass::kForward); }
std::function<bool(const KernelSpec&)> BackpropInputByWinograd() { return ByWinograd(Pass::kBackwardData); }
std::function<bool(const KernelSpec&)> BackpropFilterByWinograd() { return ByWinograd(Pass::kBackwardWeights); }

std::optional<Kernel> WinogradForward(const KernelSpec& spec, const onednn::Conv2DShape& shape, bool relu) {
  if (!Computes(spec, shape, Pass::kForward)) return std::nullopt;
  const bool bias = spec.inputs.size() > 2;
  return ForDType(shape.dtype, [&]<class T>() {
    const Convolution<T> convolution(shape, Pass::kForward);
    return Kernel{
        [convolution, bias, relu, filter = TransformedConstant(spec, convolution)](const KernelContext& context) {
          const T* const x = context.input<T>(0);
          const T* const biases = bias ? context.input<T>(2) : nullptr;
          T* const y = context.output<T>(0);
          if (const float* const ready = filter.template data<float>(); ready != nullptr) {
            convolution.ForwardTransformed(x, ready, biases, relu, y, context.workspace);
          } else {
            convolution.Forward(x, context.input<T>(1), biases, relu, y, context.workspace);
          }
          return absl::OkStatus();
        },
        convolution.workspace_bytes()};
  });
}

std::optional<Kernel> WinogradBackpropInput(const KernelSpec& spec, const onednn::Conv2DShape& shape) {
  if (!Computes(spec, shape, Pass::kBackwardData)) return std::nullopt;
  const size_t inputs = spec.inputs.size();
  return ForDType(shape.dtype, [&]<class T>() {
    const Convolution<T> convolution(shape, Pass::kBackwardData);
    return Kernel{[convolution, inputs](const KernelContext& context) {
                    const T* const mask = inputs > 3 ? context.input<T>(3) : nullptr;
                    const T* const addend = inputs > 4 ? context.input<T>(4) : nullptr;
                    convolution.BackwardData(context.input<T>(2), context.input<T>(1), addend, mask,
                                             context.output<T>(0), context.workspace);
                    return absl::OkStatus();
                  },
                  convolution.workspace_bytes()};
  });
}

std::optional<Kernel> WinogradBackpropFilter(const KernelSpec& spec, const onednn::Conv2DShape& shape) {
  if (!Computes(spec, shape, Pass::kBackwardWeights)) return std::nullopt;
  const bool bias = spec.outputs.size() > 1;
  return ForDType(shape.dtype, [&]<class T>() {
    const Convolution<T> convolution(shape, Pass::kBackwardWeights);
    return Kernel{[convolution, bias](const KernelContext& context) {
                    convolution.BackwardWeights(context.input<T>(0), context.input<T>(2), context.output<T>(0),
                                                bias ? context.output<T>(1) : nullptr, context.workspace);
                    return absl::OkStatus();
                  },
                  convolution.workspace_bytes()};
  });
}

}  // namespace belfry::ops
