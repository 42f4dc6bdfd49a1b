#include <utility>

#include "framework/base/status.h"
#include "ops/activation/epilogue_impl.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/engines/depthwise_impl.h"
#include "ops/convolution/engines/direct_impl.h"
#include "ops/convolution/engines/loops_impl.h"
#include "ops/convolution/engines/onednn_impl.h"
#include "ops/convolution/engines/product_impl.h"
#include "ops/convolution/engines/winograd_impl.h"
#include "ops/convolution/engines_impl.h"
#include "ops/onednn/primitive_kernel_impl.h"

namespace belfry::ops {
namespace {

// In the order in which they are asked.
constexpr const ConvolutionEngine* kForward[] = {&kProductForward, &kDirectForwardOfFewOutputs, &kWinogradForward,
                                                 &kDirectForward,  &kDepthwiseForward,          &kOneDnnForward,
                                                 &kLoopsForward};
constexpr const ConvolutionEngine* kBackwardData[] = {
    &kWinogradBackwardData, &kProductBackwardData, &kDepthwiseBackwardData, &kOneDnnBackwardData, &kLoopsBackwardData};
constexpr const ConvolutionEngine* kBackwardWeights[] = {
    &kDirectBackwardWeightsOfFewOutputs, &kWinogradBackwardWeights, &kDirectBackwardWeights,
    &kDepthwiseBackwardWeights,          &kOneDnnBackwardWeights,   &kLoopsBackwardWeights};

bool MayServe(const ConvolutionEngine& engine, const ConvolutionNode& node) {
  return (engine.empty || HasElements(node.spec)) && engine.serves(node);
}

}  // namespace

absl::Span<const ConvolutionEngine* const> ConvolutionEngines(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward: return kForward;
    case ConvolutionPass::kBackwardData: return kBackwardData;
    case ConvolutionPass::kBackwardWeights: return kBackwardWeights;
  }
  return {};
}

const ConvolutionEngine* FirstEngine(ConvolutionPass pass, const ConvolutionNode& node) {
  for (const ConvolutionEngine* engine : ConvolutionEngines(pass)) {
    if (MayServe(*engine, node)) return engine;
  }
  return nullptr;
}

MadeKernel MakeByEngine(ConvolutionPass pass, const ConvolutionNode& node, bool fused) {
  for (const ConvolutionEngine* engine : ConvolutionEngines(pass)) {
    if ((fused && !engine->fuses) || !MayServe(*engine, node)) continue;
    ASSIGN_OR_RETURN(std::optional<Kernel> kernel, engine->make(node));
    if (!kernel.has_value()) continue;
    kernel->engine = engine->name;
    return kernel;
  }
  return std::nullopt;
}

std::function<bool(const KernelSpec&)> TakesHalfPrecision(ConvolutionPass pass) {
  return [pass](const KernelSpec& spec) {
    const bool activates = spec.attrs.Find("activation") != nullptr;
    const absl::StatusOr<Epilogue> epilogue = activates ? EpilogueOf(spec.attrs) : Epilogue();
    const ConvolutionGeometry shape = Conv2DGeometry(spec.attrs, spec.inputs[0], spec.inputs[1].shape);
    const ConvolutionEngine* const engine = FirstEngine(pass, {spec, shape, epilogue.value_or(Epilogue())});
    return engine != nullptr && engine->half_precision;
  };
}

}  // namespace belfry::ops
