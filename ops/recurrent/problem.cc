#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/recurrent/problem_impl.h"

namespace belfry::ops::recurrent {
namespace {

// Sets `extent` to `other` if it is unknown. False if both are known and differ.
bool Agree(int64_t& extent, int64_t other) {
  if (extent == Shape::kUnknown) extent = other;
  return other == Shape::kUnknown || extent == other;
}

}  // namespace

Problem MakeProblem(const KernelSpec& spec) {
  const Shape &gates = spec.inputs[0].shape, &weights = spec.inputs[1].shape;
  return {.n = gates[0], .t = gates[1], .h = weights[0]};
}

absl::StatusOr<Shape> OutputShape(const Shape& projected, const Shape& weights, absl::Span<const Shape> states,
                                  int64_t gates) {
  const auto reject = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("needs ", what, ", but was given the projection ",
                                                   projected.ToString(), " and recurrent weights ",
                                                   weights.ToString()));
  };
  if (projected.rank() != 3 || weights.rank() != 2) return reject("x [N, T, I] and recurrent weights of rank 2");
  int64_t n = projected[0], h = weights[0], columns = projected[2];
  bool fits = Agree(columns, weights[1]);
  if (columns != Shape::kUnknown) fits = fits && columns % gates == 0 && Agree(h, columns / gates);
  if (!fits || h == 0) return reject(absl::StrCat("a projection [N, T, ", gates, " H] and weights [H, ", gates, " H]"));
  for (const Shape& state : states) {
    if (state.rank() == 2 && Agree(n, state[0]) && Agree(h, state[1])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("needs initial states [N, H], but was given ", state.ToString(), " with N = ", n, " and H = ", h));
  }
  return Shape({n, projected[1], h});
}

Output Project(const Scope& scope, absl::string_view op, const Output& x, const Output& weights, const Output& biases) {
  if (x.valid() && x.shape().rank() != 3) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat(op, " needs x [N, T, I], but was given ", x.name(), " ",
                                                       x.shape().ToString(), " (", scope.location().ToString(), ")")));
  }
  Output rows = MatMul(scope, MergeAxes(scope, x, 0, 1), weights);
  if (biases.valid()) rows = BiasAdd(scope, rows, biases);
  if (!scope.status().ok()) return Output();
  return Reshape(scope, rows, {Extent::Of(x, 0), Extent::Of(x, 1), Extent::Of(weights, 1)});
}

Output GradientOr0(const Scope& scope, const Output& dy, const Output& y) {
  return dy.valid() ? dy : ZerosLike(scope, y);
}

Output WeightsGradient(const Scope& scope, const Output& initial, const Output& y, const Output& dg) {
  const Output all = Concat(scope, {ExpandDims(scope, initial, 1), y}, 1);
  const Output before = StridedSlice(scope, all, {0, 0}, {kSliceEnd, -1});
  return MatMul(scope, MergeAxes(scope, before, 0, 1), MergeAxes(scope, dg, 0, 1), {.transpose_a = true});
}

}  // namespace belfry::ops::recurrent
