#include "ops/builtin_ops.h"
#include "ops/recurrent/recurrent_ops.h"

namespace belfry::ops {

void RegisterRecurrentOps(OpRegistry& registry) {
  RegisterLstm(registry);
  RegisterGru(registry);
}

}  // namespace belfry::ops
