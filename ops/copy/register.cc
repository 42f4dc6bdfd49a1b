#include "ops/builtin_ops.h"
#include "ops/copy/copy_ops.h"

namespace belfry::ops {

void RegisterCopyOps(OpRegistry& registry) {
  RegisterConstantOps(registry);
  RegisterViewOps(registry);
  RegisterExtentsOps(registry);
  RegisterCastOps(registry);
  RegisterBroadcastOps(registry);
  RegisterTransposeOps(registry);
  RegisterTileOps(registry);
  RegisterConcatOps(registry);
  RegisterSplitOps(registry);
  RegisterSliceOps(registry);
  RegisterPadOps(registry);
}

}  // namespace belfry::ops
