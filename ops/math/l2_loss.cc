#include "ops/math.h"
#include "ops/math/define_impl.h"
#include "ops/math/math_ops.h"
#include "ops/math/reduce_impl.h"
#include "ops/math/reductions.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeL2Loss(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  return ReduceKernel<T, T>(PlanReduce(x, std::vector<bool>(x.rank(), true)), HalfSquareReduction<Compute<T>>());
}

}  // namespace

Output L2Loss(OpScope scope, Output x) { return scope.Add("L2Loss", {x}); }

void RegisterL2Loss(OpRegistry& registry) {
  OpDef op = UnaryOp(
      "L2Loss", kFloatTypes,
      Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) { return &MakeL2Loss<typename decltype(tag)::type>; }),
      [](const Scope& scope, Output x, Output, Output dy) { return Mul(scope, x, dy); });
  op.shape = [](const ShapeArgs&) -> absl::StatusOr<std::vector<Shape>> { return std::vector<Shape>{Shape()}; };
  op.elementwise = false;
  op.in_place.clear();
  registry.Add(std::move(op));
}

}  // namespace belfry::ops
