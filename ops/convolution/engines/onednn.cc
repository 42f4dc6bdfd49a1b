#include "ops/convolution/engines/onednn_impl.h"

#include <utility>

#include "framework/base/status.h"
#include "ops/activation/epilogue_impl.h"
#include "ops/onednn/convolution.h"
#include "ops/onednn/primitive_kernel_impl.h"

namespace belfry::ops {
namespace {

bool OneDnnMayServe(const ConvolutionNode& node) { return OneDnnComputes(node.shape.dtype); }

MadeKernel MakeOneDnnForward(const ConvolutionNode& node) {
  if (!node.has_bias()) return PrimitiveKernel(node.spec, onednn::Conv2DForward(node.shape), {0, 1}, {0});
  const bool whole = onednn::Applies(node.epilogue);
  const onednn::Conv2DForwardOptions options{.bias = true, .post_ops = whole ? node.epilogue : Epilogue()};
  ASSIGN_OR_RETURN(std::optional<Kernel> kernel,
                   PrimitiveKernel(node.spec, onednn::Conv2DForward(node.shape, options), {0, 1, 2}, {0}));
  if (!kernel.has_value() || whole) return kernel;
  return node.shape.dtype == DType::kFloat32 ? ThenActivation<float>(*std::move(kernel), node.spec, node.epilogue)
                                             : ThenActivation<BFloat16>(*std::move(kernel), node.spec, node.epilogue);
}

MadeKernel MakeOneDnnBackwardData(const ConvolutionNode& node) {
  return PrimitiveKernel(node.spec, onednn::Conv2DBackwardData(node.shape), {2, 1}, {0});
}

MadeKernel MakeOneDnnBackwardWeights(const ConvolutionNode& node) {
  const bool bias = node.wants_bias_gradient();
  const std::vector<int> outputs = bias ? std::vector<int>{0, 1} : std::vector<int>{0};
  return PrimitiveKernel(node.spec,
                         onednn::Conv2DBackwardWeights(node.shape, {.bias = bias, .gradient_dtype = node.shape.dtype}),
                         {0, 2}, outputs);
}

}  // namespace

const ConvolutionEngine kOneDnnForward = {"oneDNN", &OneDnnMayServe, &MakeOneDnnForward};
const ConvolutionEngine kOneDnnBackwardData = {"oneDNN", &OneDnnMayServe, &MakeOneDnnBackwardData, /*fuses=*/false};
const ConvolutionEngine kOneDnnBackwardWeights = {"oneDNN", &OneDnnMayServe, &MakeOneDnnBackwardWeights};

}  // namespace belfry::ops
