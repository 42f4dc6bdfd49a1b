// Gradients and their application: the parts of a training step.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "optim/optimizer.h"

namespace belfry::optim {

struct GradientAndVariable {
  Output gradient;  // invalid if none flows; the variable is then left alone
  Variable variable;
  Output indices = {};  // valid: the gradient is sparse, and `gradient` its rows (ops::Gradient)
};

// The sparse gradients: of variables [V, ...] used through ops::Gather alone, as embeddings are, in
// any number of places. A table that is used otherwise too, such as one with a weight decay loss or one that is also
// the output layer, has a dense gradient.
enum class SparseGradients { kNever, kWherePossible };

// Adds the gradients of `loss` with respect to `variables`, in that order. Errors, which stick to the graph and give an
// empty list: no variables; any error of Gradients().
std::vector<GradientAndVariable> ComputeGradients(OpScope scope, Output loss, absl::Span<const Variable> variables,
                                                  SparseGradients sparse = SparseGradients::kNever);
// The trainable variables of the scope's replica, below its variable path.
std::vector<Variable> TrainableVariables(const Scope& scope);

// weight_decay / 2 times the sum of squares of the variables that `filter` accepts, which have one dtype: a scalar of
// that dtype whose gradient is weight_decay * variable. A float32 zero if there are none. Optimizers also take weight
// decay as an option, which saves a pass over memory.
Output L2Regularization(OpScope scope, absl::Span<const Variable> variables, double weight_decay,
                        const VariableFilter& filter = IsWeight);

// Conditions of updates besides the scope's, bool scalars by index into `gradients`: none at all, or invalid ones for
// variables that have none. Where one is false, the variable, its slots and its count of updates keep their values.
using UpdateConditions = absl::Span<const Output>;

// Updates every variable, or part of one, that has a gradient. Returns their values after the update, in the same
// order, invalid where there is no gradient; nothing after an error, which sticks to the graph, as those of
// ApplyGradients.
std::vector<Output> ApplyUpdates(OpScope scope, const Optimizer& optimizer,
                                 absl::Span<const GradientAndVariable> gradients, UpdateConditions conditions = {});
// Once the updates have run: adds 1 to the global step of the variables' replica, and to the updates of each variable
// if the optimizer counts them. `updated`: what ApplyUpdates returned for `gradients`. Returns the new counts, with the
// global step's first; nothing after an error.
std::vector<Output> CountUpdates(OpScope scope, const Optimizer& optimizer,
                                 absl::Span<const GradientAndVariable> gradients, absl::Span<const Output> updated,
                                 UpdateConditions conditions = {});
// Updates every variable that has a gradient, then counts the updates. Returns the node to run as a target;
// null after an error, which sticks to the graph: no pairs, no gradient in any of them, a variable listed twice,
// variables of different replicas.
const Node* ApplyGradients(OpScope scope, const Optimizer& optimizer, absl::Span<const GradientAndVariable> gradients,
                           UpdateConditions conditions = {});

}  // namespace belfry::optim
