// The sizes of one recurrence and the graph around it, shared by its ops. Internal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/shape.h"
#include "framework/graph/kernel.h"
#include "framework/graph/op_def.h"
#include "framework/graph/scope.h"

namespace belfry::ops::recurrent {

struct Problem {
  int64_t n = 0, t = 0, h = 0;  // batch, steps, units

  constexpr int64_t At(int64_t batch, int64_t step) const { return (batch * t + step) * h; }  // in [N, T, H]
  // The steps of a sequence of the batch: as many as its length, or all if `lengths` [N] is null.
  constexpr int64_t Steps(const int32_t* lengths, int64_t batch) const {
    return lengths == nullptr || lengths[batch] > t ? t : lengths[batch];
  }
  // Floating-point operations of the recurrent products.
  double Flops(int64_t gates) const { return 2 * static_cast<double>(n * t * h) * static_cast<double>(gates * h); }
};

// The problem of a node whose inputs begin with gates [N, T, gates H] and weights [H, gates H].
Problem MakeProblem(const KernelSpec& spec);

// The inputs of a node that has `fixed` ones, then perhaps lengths [N], the only integers, and then perhaps states.
struct OptionalInputs {
  bool lengths = false;
  int states = 0;  // index of the first state
  bool has_states = false;

  template <class T>
  const T* State(const KernelContext& context, int index = 0) const {
    return has_states ? context.input<T>(states + index) : nullptr;
  }
  const int32_t* Lengths(const KernelContext& context) const {
    return lengths ? context.input<int32_t>(states - 1) : nullptr;
  }
};
// The inputs of an op of which those after `fixed` are optional: lengths, if it has them, and states.
std::vector<ArgDef> WithOptional(std::vector<ArgDef> fixed, bool lengths, const std::string& states);
OptionalInputs InputsAfter(int fixed, absl::Span<const DType> dtypes);
OptionalInputs InputsAfter(int fixed, const KernelSpec& spec);
OptionalInputs InputsAfter(int fixed, const Node& node);

// InvalidArgument, which names the sequence, for a length outside [0, T]. `lengths` may be null.
absl::Status CheckLengths(const Problem& p, const int32_t* lengths);

// [N, T, H] from inputs that begin with gates and weights, of which those from index `fixed` on are optional.
// InvalidArgument if they do not fit.
absl::StatusOr<Shape> OutputShape(const ShapeArgs& args, int fixed, int64_t gates);

// x [N, T, I] times weights [I, G], plus the biases [G] unless invalid: [N, T, G]. Invalid after an error.
Output Project(const Scope& scope, absl::string_view op, const Output& x, const Output& weights, const Output& biases);

// `dy`, or zeros like `y` where no gradient flows.
Output GradientOr0(const Scope& scope, const Output& dy, const Output& y);

// The gradient of recurrent weights [H, G]: the hidden states before each step, transposed, times the gradient dg
// [N, T, G] of their products. `initial` [N, H] comes before y [N, T, H].
Output WeightsGradient(const Scope& scope, const Output& initial, const Output& y, const Output& dg);

// For second derivatives. The gradient ops read what the forward op keeps (its gates), not the projection that this is
// of. So their rules differentiate the forward computation, made of ops, with respect to the projection and the
// products with the hidden state, and pass these gradients to the op in the place of those of the gates. Its rule takes
// them so.

// The node of the forward op of which `node` is the gradient. After an error, null.
const Node* ForwardOf(const Scope& scope, const Node& node);

// A recurrence of ops: `step` makes the states after step t, of which the first is hidden, of those before.
struct Unrolled {
  Output y;
  std::vector<Output> states;
};
using Step = std::function<std::vector<Output>(int64_t t, const std::vector<Output>& states)>;
// Runs `step` for each of the T steps of like [N, T, ..], where T is known, from the initial `states`. An invalid
// `lengths` stands for sequences that all have T steps.
Unrolled Unroll(const Scope& scope, Output like, Output lengths, std::vector<Output> states, const Step& step);

}  // namespace belfry::ops::recurrent
