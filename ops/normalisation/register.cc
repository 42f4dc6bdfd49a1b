#include "ops/builtin_ops.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {

void RegisterNormalisationOps(OpRegistry& registry) {
  RegisterLrn(registry);
  RegisterMoments(registry);
  RegisterBatchNorm(registry);
  RegisterLayerNorm(registry);
  RegisterRmsNorm(registry);
  RegisterGroupNorm(registry);
}

}  // namespace belfry::ops
