#include "optim/lamb.h"

#include <cmath>

#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/training.h"
#include "optim/composed_update_impl.h"

namespace belfry::optim {
namespace {

// 1 - beta^t, also where that is small.
Output Correction(const Scope& scope, double beta, Output t) {
  return ops::Neg(scope, ops::Expm1(scope, ops::Scale(scope, t, std::log(beta))));
}

// |v| / |by|, or 1 if either is 0.
Output Trust(const Scope& scope, Output v, Output by) {
  const Output of_v = ops::GlobalNorm(scope, {v}, v.dtype()), of_by = ops::GlobalNorm(scope, {by}, v.dtype());
  const Output zero = ops::ZerosLike(scope, of_by);
  const Output both = ops::LogicalAnd(scope, ops::Greater(scope, of_v, zero), ops::Greater(scope, of_by, zero));
  return ops::Select(scope, both, ops::Div(scope, of_v, of_by), ops::OnesLike(scope, of_by));
}

}  // namespace

Lamb::Lamb(const LambOptions& options) : Optimizer(options.learning_rate), options_(options) {}

absl::Status Lamb::Check(absl::Span<const Variable> /*variables*/) const {
  RETURN_IF_ERROR(CheckSlotDecay("LAMB", "beta1", options_.beta1));
  return CheckSlotDecay("LAMB", "beta2", options_.beta2);
}

Output Lamb::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  if (RefusesPart(scope, variable, "LAMB needs the norm of")) return Output();
  if (absl::Status status = Check({variable}); !status.ok()) {
    scope.Fail(status);
    return Output();
  }
  const Variable m = Slot(scope, variable, "Lamb", 0), s = Slot(scope, variable, "Lamb_1", 0);
  const Variable count = UpdateCount(scope, variable, count_slot(variable));
  if (!m.valid() || !s.valid() || !count.valid()) return Output();
  const ComposedUpdate rule(scope, variable, learning_rate(), gradient.value);
  const Scope& update = rule.scope;
  const double beta1 = options_.beta1, beta2 = options_.beta2;
  const Output t = ops::Cast(update, ops::Add(update, count, ops::Const(update, int64_t{1})), rule.dtype);
  const Output mean = ops::Div(update, rule.Blend(m, beta1, 1 - beta1, rule.gradient), Correction(update, beta1, t));
  const Output square = ops::Div(update, rule.Blend(s, beta2, 1 - beta2, ops::Square(update, rule.gradient)),
                                 Correction(update, beta2, t));
  const Output deviation = ops::Add(update, ops::Sqrt(update, square), rule.Number(options_.epsilon));
  Output by = ops::Div(update, mean, deviation);
  if (options_.adapts != nullptr && !options_.adapts(variable)) return rule.Subtract(rule.rate, by);
  by = ops::Add(update, by, ops::Scale(update, rule.value, options_.weight_decay));
  return rule.Subtract(ops::Mul(update, rule.rate, Trust(update, rule.value, by)), by);
}

}  // namespace belfry::optim
