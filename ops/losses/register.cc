#include "ops/builtin_ops.h"
#include "ops/losses/losses_ops.h"

namespace belfry::ops {

void RegisterLossOps(OpRegistry& registry) {
  RegisterCrossEntropy(registry);
  RegisterSigmoidCrossEntropy(registry);
  RegisterL2Loss(registry);
}

}  // namespace belfry::ops
