#include "ops/builtin_ops.h"
#include "ops/nn/nn_ops.h"

namespace belfry::ops {

void RegisterNnOps(OpRegistry& registry) {
  RegisterActivations(registry);
  RegisterSmoothActivations(registry);
  RegisterSoftmax(registry);
  RegisterCrossEntropy(registry);
  RegisterSigmoidCrossEntropy(registry);
  RegisterBias(registry);
  RegisterCheckNumerics(registry);
  RegisterDropout(registry);
  RegisterConv2D(registry);
  RegisterPool(registry);
  RegisterLrn(registry);
  RegisterMoments(registry);
  RegisterBatchNorm(registry);
  RegisterLayerNorm(registry);
  RegisterFused(registry);
}

}  // namespace belfry::ops
