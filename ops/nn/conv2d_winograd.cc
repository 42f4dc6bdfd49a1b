#include "framework/device/device.h"
#include "ops/nn/conv2d_winograd_impl.h"
#include "ops/nn/primitive_kernel_impl.h"
#include "ops/winograd/winograd.h"

namespace belfry::ops {
namespace {

using winograd::Convolution;
using winograd::Pass;

bool Computes(const KernelSpec& spec, const onednn::Conv2DShape& shape, Pass pass) {
  return HasElements(spec) && (spec.device == nullptr || spec.device->math().winograd) && IsBest(shape, pass);
}

}  // namespace

std::optional<Kernel> WinogradForward(const KernelSpec& spec, const onednn::Conv2DShape& shape, bool relu) {
  if (!Computes(spec, shape, Pass::kForward)) return std::nullopt;
  const Convolution convolution(shape, Pass::kForward);
  const bool bias = spec.inputs.size() > 2;
  return Kernel{[=](const KernelContext& context) {
                  convolution.Forward(context.input<float>(0), context.input<float>(1),
                                      bias ? context.input<float>(2) : nullptr, relu, context.output<float>(0),
                                      context.workspace);
                  return absl::OkStatus();
                },
                convolution.workspace_bytes()};
}

std::optional<Kernel> WinogradBackpropInput(const KernelSpec& spec, const onednn::Conv2DShape& shape) {
  if (!Computes(spec, shape, Pass::kBackwardData)) return std::nullopt;
  const Convolution convolution(shape, Pass::kBackwardData);
  return Kernel{[=](const KernelContext& context) {
                  convolution.BackwardData(context.input<float>(2), context.input<float>(1), context.output<float>(0),
                                           context.workspace);
                  return absl::OkStatus();
                },
                convolution.workspace_bytes()};
}

std::optional<Kernel> WinogradBackpropFilter(const KernelSpec& spec, const onednn::Conv2DShape& shape) {
  if (!Computes(spec, shape, Pass::kBackwardWeights)) return std::nullopt;
  const Convolution convolution(shape, Pass::kBackwardWeights);
  const bool bias = spec.outputs.size() > 1;
  return Kernel{[=](const KernelContext& context) {
                  convolution.BackwardWeights(context.input<float>(0), context.input<float>(2),
                                              context.output<float>(0), bias ? context.output<float>(1) : nullptr,
                                              context.workspace);
                  return absl::OkStatus();
                },
                convolution.workspace_bytes()};
}

}  // namespace belfry::ops
