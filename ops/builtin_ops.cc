#include "ops/builtin_ops.h"

namespace belfry {
namespace ops {

OpRegistry MakeBuiltinOps() {
  OpRegistry registry;
  RegisterArrayOps(registry);
  RegisterMathOps(registry);
  RegisterNnOps(registry);
  RegisterRandomOps(registry);
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
