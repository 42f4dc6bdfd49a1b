#include "ops/array/array_ops.h"
#include "ops/builtin_ops.h"

namespace belfry::ops {

void RegisterArrayOps(OpRegistry& registry) {
  RegisterConstantOps(registry);
  RegisterViewOps(registry);
  RegisterCastOps(registry);
  RegisterBroadcastOps(registry);
  RegisterTransposeOps(registry);
  RegisterTileOps(registry);
  RegisterConcatOps(registry);
  RegisterSplitOps(registry);
  RegisterSliceOps(registry);
  RegisterPadOps(registry);
  RegisterGatherOps(registry);
  RegisterOneHotOps(registry);
  RegisterSelectOps(registry);
}

}  // namespace belfry::ops
