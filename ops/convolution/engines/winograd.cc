#include "ops/convolution/engines/winograd_impl.h"

#include "framework/base/half.h"
#include "framework/base/tensor.h"
#include "framework/device/device.h"
#include "ops/winograd/winograd_impl.h"

namespace belfry::ops {
namespace {

using winograd::Convolution;
using winograd::Pass;

template <Pass pass>
bool WinogradServes(const ConvolutionNode& node) {
  const Device* const device = node.spec.device;
  return (device == nullptr || device->math().winograd) && node.IsReluAtMost() && winograd::IsBest(node.shape, pass);
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

MadeKernel MakeWinogradForward(const ConvolutionNode& node) {
  const bool bias = node.has_bias(), relu = node.relu();
  return ForDType(node.shape.dtype, [&]<class T>() {
    const Convolution<T> convolution(node.shape, Pass::kForward);
    const float* const filter = TransformedConstant(node.spec, convolution);
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

MadeKernel MakeWinogradBackwardData(const ConvolutionNode& node) {
  const size_t inputs = node.spec.inputs.size();
  return ForDType(node.shape.dtype, [&]<class T>() {
    const Convolution<T> convolution(node.shape, Pass::kBackwardData);
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

MadeKernel MakeWinogradBackwardWeights(const ConvolutionNode& node) {
  const bool bias = node.wants_bias_gradient();
  return ForDType(node.shape.dtype, [&]<class T>() {
    const Convolution<T> convolution(node.shape, Pass::kBackwardWeights);
    return Kernel{[convolution, bias](const KernelContext& context) {
                    convolution.BackwardWeights(context.input<T>(0), context.input<T>(2), context.output<T>(0),
                                                bias ? context.output<T>(1) : nullptr, context.workspace);
                    return absl::OkStatus();
                  },
                  convolution.workspace_bytes()};
  });
}

}  // namespace

const ConvolutionEngine kWinogradForward = {"Winograd", &WinogradServes<Pass::kForward>, &MakeWinogradForward,
                                            /*fuses=*/true, /*half_precision=*/true};
const ConvolutionEngine kWinogradBackwardData = {"Winograd", &WinogradServes<Pass::kBackwardData>,
                                                 &MakeWinogradBackwardData, /*fuses=*/true, /*half_precision=*/true};
const ConvolutionEngine kWinogradBackwardWeights = {"Winograd", &WinogradServes<Pass::kBackwardWeights>,
                                                    &MakeWinogradBackwardWeights, /*fuses=*/true,
                                                    /*half_precision=*/true};

}  // namespace belfry::ops
