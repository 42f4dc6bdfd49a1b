#include <limits>

#include "models/layers/recurrent.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/sequence.h"

namespace belfry::models {
namespace {

// x [N, T, ...] with its padding replaced by `value`.
Output FillPadding(const Scope& scope, const Output& x, const Output& lengths, double value) {
  Output mask = ops::SequenceMask(scope, x, lengths);
  if (!mask.valid()) return Output();
  while (mask.shape().rank() < x.shape().rank()) mask = ops::ExpandDims(scope, mask, -1);
  return ops::Select(scope, mask, x, ops::Fill(scope, {}, value, x.dtype()));
}

// One number per sequence, [N], as [N, 1 ...] of the rank of y.
Output BesideOf(const Scope& scope, Output of_sequences, const Output& y) {
  while (of_sequences.shape().rank() < y.shape().rank()) of_sequences = ops::ExpandDims(scope, of_sequences, -1);
  return of_sequences;
}

}  // namespace

Output MeanOverSteps(OpScope scope, Output x, Output lengths) {
  const Output filled = FillPadding(scope, x, lengths, 0);
  if (!filled.valid()) return Output();
  const Output sum = ops::Sum(scope, filled, 1);
  const Output steps = ops::Maximum(scope, lengths, ops::Const(scope, 1));
  return ops::Div(scope, sum, BesideOf(scope, ops::Cast(scope, steps, x.dtype()), sum));
}

Output LastStep(OpScope scope, Output x, Output lengths) {
  const Output mask = ops::SequenceMask(scope, x, lengths);  // checks both
  if (!mask.valid()) return Output();
  const Output sequences = ops::Cumsum(scope, ops::OnesLike(scope, lengths), 0, {.exclusive = true});
  const Output steps = ops::Maximum(scope, ops::Sub(scope, lengths, 1), 0);
  const Output last = ops::GatherND(scope, x, ops::Stack(scope, {sequences, steps}, 1));
  return ops::Select(scope, BesideOf(scope, ops::Greater(scope, lengths, 0), last), last, 0);
}

Output MaxOverSteps(OpScope scope, Output x, Output lengths) {
  const Output filled = FillPadding(scope, x, lengths, -std::numeric_limits<double>::infinity());
  if (!filled.valid()) return Output();
  const Output largest = ops::Max(scope, filled, 1);
  const Output any = ops::Greater(scope, lengths, ops::Const(scope, 0));
  return ops::Select(scope, BesideOf(scope, any, largest), largest, ops::Fill(scope, {}, 0, x.dtype()));
}

}  // namespace belfry::models
