#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/training.h"
#include "optim/composed_update_impl.h"

namespace belfry::optim {
namespace {

// The published coefficients, which bring small singular values up fast, to between 0.7 and 1.2 and not to 1.
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315, kEpsilon = 1e-7;

// The matrix [rows, columns] with its singular values near 1. Products are of its shorter side.
Output Orthogonalise(const Scope& scope, Output x, int iterations) {
  const bool wide = x.shape()[0] <= x.shape()[1];
  const Output epsilon = ops::Cast(scope, ops::Const(scope, kEpsilon), x.dtype());
  x = ops::Div(scope, x, ops::Add(scope, ops::GlobalNorm(scope, {x}, x.dtype()), epsilon));
  for (int i = 0; i < iterations; ++i) {
    const Output gram = ops::MatMul(scope, x, x, {.transpose_a = !wide, .transpose_b = wide});
    const Output square = ops::Scale(scope, ops::MatMul(scope, gram, gram), kC);
    const Output odd = ops::Add(scope, ops::Scale(scope, gram, kB), square);
    const Output product = wide ? ops::MatMul(scope, odd, x) : ops::MatMul(scope, x, odd);
    x = ops::Add(scope, ops::Scale(scope, x, kA), product);
  }
  return x;
}

}  // namespace

Muon::Muon(const MuonOptions& options) : Optimizer(options.learning_rate), options_(options) {}

absl::Status Muon::Check(absl::Span<const Variable> variables) const {
  RETURN_IF_ERROR(CheckSlotDecay("Muon", "momentum", options_.momentum));
  if (options_.iterations < 1) {
    return absl::InvalidArgumentError(absl::StrCat("Muon: ", options_.iterations, " iterations; expected at least 1"));
  }
  for (const Variable& variable : variables) {
    if (IsWeight(variable)) continue;
    return absl::InvalidArgumentError(absl::StrCat("Muon updates matrices, but the variable ", variable.name(),
                                                   " has shape ", variable.whole().shape().ToString(),
                                                   "; give it another optimizer by ParameterGroups"));
  }
  return absl::OkStatus();
}

Output Muon::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  if (RefusesPart(scope, variable, "Muon needs")) return Output();
  if (absl::Status status = Check({variable}); !status.ok()) {
    scope.Fail(status);
    return Output();
  }
  const Variable slot = Slot(scope, variable, "Muon", 0);
  if (!slot.valid()) return Output();
  const ComposedUpdate rule(scope, variable, learning_rate(), gradient.value);
  const Scope& update = rule.scope;
  Output by = rule.Blend(slot, options_.momentum, 1, rule.gradient);
  if (options_.use_nesterov) by = ops::Add(update, rule.gradient, ops::Scale(update, by, options_.momentum));
  const int64_t columns = variable.shape()[-1], rows = variable.shape().elements() / std::max<int64_t>(columns, 1);
  by = Orthogonalise(update, ops::Reshape(update, by, {rows, columns}), options_.iterations);
  const auto height = static_cast<double>(rows), width = static_cast<double>(columns);
  const double factor =
      options_.match_adamw ? 0.2 * std::sqrt(std::max(height, width)) : std::sqrt(std::max(1.0, width / height));
  by = ops::ReshapeLike(update, ops::Scale(update, by, factor), rule.value);
  const double decay = Decay(options_.weight_decay, options_.decays, variable);
  if (decay > 0) by = ops::Add(update, by, ops::Scale(update, rule.value, decay));
  if (!options_.normalise) return rule.Subtract(rule.rate, by);
  // A variable of zeros stays one, since it has no direction to scale.
  const Output norm = ops::GlobalNorm(update, {rule.value}, rule.dtype);
  const Output any = ops::Greater(update, norm, ops::ZerosLike(update, norm));
  const Output scale = ops::Select(update, any, ops::Div(update, rule.Number(std::sqrt(width)), norm), rule.Number(1));
  const Output excess = ops::Mul(update, rule.value, ops::Sub(update, rule.Number(1), scale));
  return rule.Subtract(rule.Number(1), ops::Add(update, excess, ops::Mul(update, rule.rate, by)));
}

}  // namespace belfry::optim
