#include "ops/activation/activation_ops.h"
#include "ops/builtin_ops.h"

namespace belfry::ops {

void RegisterActivationOps(OpRegistry& registry) {
  RegisterActivations(registry);
  RegisterSmoothActivations(registry);
  RegisterSoftmax(registry);
  RegisterBias(registry);
  RegisterDropout(registry);
}

}  // namespace belfry::ops
