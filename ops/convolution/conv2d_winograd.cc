#include "framework/base/half.h"
#include "framework/base/tensor.h"
#include "framework/device/device.h"
#include "ops/convolution/conv2d_direct_impl.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/conv2d_winograd_impl.h"
#include "ops/onednn/primitive_kernel_impl.h"
#include "ops/winograd/winograd_impl.h"

namespace belfry::ops {
namespace {

using winograd::Convolution;
using winograd::Pass;

bool Computes(const KernelSpec& spec, const onednn::Conv2DShape& shape, Pass pass) {
  return HasElements(spec) && (spec.device == nullptr || spec.device->math().winograd) && IsBest(shape, pass) &&
         !IsDirect(shape, pass);
}

// Calls make.operator()<T>() with the C++ type of the images.
template <class Make>
Kernel ForDType(DType dtype, const Make& make) {
  return dtype == DType::kFloat32 ? make.template operator()<float>() : make.template operator()<BFloat16>();
}

// The transformed filter of a forward convolution if that is a constant; otherwise null.
template <class T>
const float* TransformedConstant(const KernelSpec& spec, const Convolution<T>& convolution) {
  const auto transform = [&](const void* weights, void* transformed) {
    const absl::StatusOr<Tensor> floats = Tensor::Allocate(DType::kFloat32, {convolution.weight_floats()});
    if (!floats.ok()) return false;
    convolution.TransformWeights(static_cast<const T*>(weights), static_cast<float*>(transformed),
                                 const_cast<float*>(floats->data<float>()));
    return true;
  };
  return static_cast<const float*>(
      spec.Prepared(1, static_cast<size_t>(convolution.filter_floats()) * sizeof(float), transform));
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
    const float* const filter = TransformedConstant(spec, convolution);
    return Kernel{[convolution, bias, relu, filter](const KernelContext& context) {
                    const T* const x = context.input<T>(0);
                    const T* const biases = bias ? context.input<T>(2) : nullptr;
                    T* const y = context.output<T>(0);
                    if (filter != nullptr) {
                      convolution.ForwardTransformed(x, filter, biases, relu, y, context.workspace);
                    } else {
                      convolution.Forward(x, context.input<T>(1), biases, relu, y, context.workspace);
                    }
                    return absl::OkStatus();
                  },
                  filter == nullptr ? convolution.workspace_bytes() : convolution.transformed_workspace_bytes()};
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
