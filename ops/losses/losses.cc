// Losses that are built from element-wise ops, which the compiler fuses.
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::ops {
namespace {

// True if a and b have one shape and dtype, as far as they are known; otherwise `scope` fails.
bool AreAlike(const Scope& scope, absl::string_view op, const Output& a, const Output& b) {
  if (!a.valid() || !b.valid()) return scope.Add(op, {a, b}).valid();  // an error
  if (a.dtype() == b.dtype() && a.shape().CompatibleWith(b.shape())) return true;
  scope.Fail(absl::InvalidArgumentError(absl::StrCat("'", scope.name(), "' needs two tensors of one shape and dtype, ",
                                                     "but was given ", a.name(), " ", a.shape().ToString(), " and ",
                                                     b.name(), " ", b.shape().ToString())));
  return false;
}

}  // namespace

Output MeanSquaredLoss(OpScope scope, Output predictions, Output targets) {
  const Scope inner = scope.NameScope(scope.wanted_name().empty() ? "mean_squared_loss" : scope.wanted_name());
  if (!AreAlike(inner, "MeanSquaredLoss", predictions, targets)) return Output();
  return Mean(inner, SquaredDifference(inner, predictions, targets));
}

// With m = min(|d|, delta), both cases are m (|d| - m / 2).
Output HuberLoss(OpScope scope, Output predictions, Output targets, double delta) {
  const Scope inner = scope.NameScope(scope.wanted_name().empty() ? "huber_loss" : scope.wanted_name());
  if (!AreAlike(inner, "HuberLoss", predictions, targets)) return Output();
  if (!(delta > 0)) {
    inner.Fail(
        absl::InvalidArgumentError(absl::StrCat("'", inner.name(), "': delta must be positive, but is ", delta)));
    return Output();
  }
  const Output distance = Abs(inner, Sub(inner, predictions, targets));
  const Output near = Minimum(inner, distance, Fill(inner, {}, delta, distance.dtype()));
  return Mul(inner, near, Sub(inner, distance, Scale(inner, near, 0.5)));
}

// Where p is 0, the logarithms are replaced before they are multiplied by it: neither 0 log 0 nor its gradient is NaN.
Output KlDivergence(OpScope scope, Output p, Output log_q) {
  const Scope inner = scope.NameScope(scope.wanted_name().empty() ? "kl_divergence" : scope.wanted_name());
  if (!AreAlike(inner, "KlDivergence", p, log_q)) return Output();
  const Output zeros = ZerosLike(inner, p), empty = Equal(inner, p, zeros);
  const Output log_p = Log(inner, Select(inner, empty, OnesLike(inner, p), p));
  const Output ratio = Select(inner, empty, zeros, Sub(inner, log_p, log_q));
  return Sum(inner, Mul(inner, p, ratio), -1);
}

}  // namespace belfry::ops
