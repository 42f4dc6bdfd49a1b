#include "ops/elementwise/define_impl.h"
#include "ops/losses/losses_ops.h"
#include "ops/math.h"
#include "ops/reduction/reduce_pieces_impl.h"
#include "ops/reduction/reductions.h"

namespace belfry::ops {

Output L2Loss(OpScope scope, Output x) { return scope.Add("L2Loss", {x}); }

void RegisterL2Loss(OpRegistry& registry) {
  OpDef op =
      UnaryOp("L2Loss", kFloatTypes, ReduceKernels<HalfSquareReduction, float, double, Half, BFloat16>(&PlanOfAll),
              [](const Scope& scope, Output x, Output, Output dy) { return Mul(scope, x, dy); });
  op.shape = [](const ShapeArgs&) -> absl::StatusOr<std::vector<Shape>> { return std::vector<Shape>{Shape()}; };
  op.elementwise = false;
  op.element_code = nullptr;
  op.in_place.clear();
  registry.Add(std::move(op));
}

}  // namespace belfry::ops
