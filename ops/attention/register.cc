#include "ops/attention/attention_ops.h"
#include "ops/builtin_ops.h"

namespace belfry::ops {

void RegisterAttentionOps(OpRegistry& registry) {
  RegisterAttention(registry);
  RegisterRotary(registry);
}

}  // namespace belfry::ops
