#include "ops/builtin_ops.h"

namespace belfry {
namespace ops {

OpRegistry MakeBuiltinOps() {
  OpRegistry registry;
  RegisterActivationOps(registry);
  RegisterCollectiveOps(registry);
  RegisterConvolutionOps(registry);
  RegisterCopyOps(registry);
  RegisterElementwiseOps(registry);
  RegisterIndexOps(registry);
  RegisterLossOps(registry);
  RegisterNormalisationOps(registry);
  RegisterPoolingOps(registry);
  RegisterProductOps(registry);
  RegisterRandomOps(registry);
  RegisterReductionOps(registry);
  RegisterStateOps(registry);
  RegisterSummaryOps(registry);
  RegisterTrainingOps(registry);
  AddGpuKernels(registry);
  return registry;
}

}  // namespace ops

const OpRegistry& BuiltinOps() {
  static const auto* const registry = new OpRegistry(ops::MakeBuiltinOps());
  return *registry;
}

}  // namespace belfry
