#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/recurrent/problem_impl.h"
#include "ops/sequence.h"

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

std::vector<ArgDef> WithOptional(std::vector<ArgDef> fixed, bool lengths, const std::string& states) {
  if (lengths) fixed.push_back({.name = "lengths", .type = "int32"});
  fixed.push_back({.name = states, .list = true});
  return fixed;
}

OptionalInputs InputsAfter(int fixed, absl::Span<const DType> dtypes) {
  const auto inputs = static_cast<int>(dtypes.size());
  const bool lengths = inputs > fixed && dtypes[static_cast<size_t>(fixed)] == DType::kInt32;
  const int states = fixed + (lengths ? 1 : 0);
  return {.lengths = lengths, .states = states, .has_states = inputs > states};
}

OptionalInputs InputsAfter(int fixed, const KernelSpec& spec) {
  std::vector<DType> dtypes;
  for (const TensorSpec& input : spec.inputs) dtypes.push_back(input.dtype);
  return InputsAfter(fixed, dtypes);
}

OptionalInputs InputsAfter(int fixed, const Node& node) {
  std::vector<DType> dtypes;
  for (const Output& input : node.inputs()) dtypes.push_back(input.dtype());
  return InputsAfter(fixed, dtypes);
}

absl::Status CheckLengths(const Problem& p, const int32_t* lengths) {
  for (int64_t i = 0; lengths != nullptr && i < p.n; ++i) {
    if (lengths[i] >= 0 && lengths[i] <= p.t) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the length ", lengths[i], " of sequence ", i, " is outside [0, T] with T = ", p.t));
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> OutputShape(const ShapeArgs& args, int fixed, int64_t gates) {
  const Shape &projected = args.inputs[0], &weights = args.inputs[1];
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
  const OptionalInputs optional = InputsAfter(fixed, args.dtypes);
  for (const Shape& state : args.inputs.subspan(static_cast<size_t>(optional.states))) {
    if (state.rank() == 2 && Agree(n, state[0]) && Agree(h, state[1])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("needs initial states [N, H], but was given ", state.ToString(), " with N = ", n, " and H = ", h));
  }
  const Shape lengths = optional.lengths ? args.inputs[static_cast<size_t>(fixed)] : Shape({n});
  if (lengths.rank() != 1 || !Agree(n, lengths[0])) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs lengths [N], but was given ", lengths.ToString(), " with N = ", n));
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

const Node* ForwardOf(const Scope& scope, const Node& node) {
  const Node* const forward = node.input(0).node;
  if (absl::StrCat(forward->op().name, "Grad") == node.op().name) {
    const Shape& projection = forward->input(0).shape();
    if (projection[1] > 0 && projection[2] > 0) return forward;  // kUnknown is negative
  }
  scope.Fail(absl::UnimplementedError(
      absl::StrCat("No gradient defined for operation '", node.name(), "' (op type: ", node.op().name,
                   "): a second derivative needs numbers of steps and units that are known while the graph is built")));
  return nullptr;
}

Unrolled Unroll(const Scope& scope, Output like, Output lengths, std::vector<Output> states, const Step& step) {
  std::vector<Output> ys;
  const Output mask = lengths.valid() ? SequenceMask(scope, like, lengths) : Output();
  for (int64_t t = 0; t < like.shape()[1]; ++t) {
    std::vector<Output> next = step(t, states);
    Output y = next[0];
    if (mask.valid()) {
      const Output runs = Slice(scope, mask, {0, t}, {-1, 1});
      y = Select(scope, runs, y, 0);
      for (size_t i = 0; i < next.size(); ++i) next[i] = Select(scope, runs, next[i], states[i]);
    }
    ys.push_back(y);
    states = std::move(next);
  }
  return {Stack(scope, ys, 1), std::move(states)};
}

}  // namespace belfry::ops::recurrent
