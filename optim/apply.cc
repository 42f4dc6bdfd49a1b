#include "optim/apply.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/memory/hash_table.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/state.h"
#include "ops/training.h"
#include "optim/global_step.h"

namespace belfry::optim {
namespace {

absl::Status CheckPairs(absl::Span<const GradientAndVariable> gradients) {
  if (gradients.empty()) return absl::InvalidArgumentError("No variables provided.");
  HashSet<const Node*> seen;
  bool any = false;
  for (const GradientAndVariable& pair : gradients) {
    if (!pair.variable.valid()) {
      return absl::InvalidArgumentError(
          "A gradient is paired with an invalid variable (default-constructed, or not found).");
    }
    if (pair.variable.replica() != gradients[0].variable.replica()) {
      return absl::InvalidArgumentError(absl::StrCat("Variables ", gradients[0].variable.name(), " and ",
                                                     pair.variable.name(), " belong to different replicas; each has ",
                                                     "its own global step, so apply their gradients separately."));
    }
    any |= pair.gradient.valid();
    if (!seen.insert(&pair.variable.whole().node()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("Variable ", pair.variable.name(), " would be updated twice in one step; add its gradients."));
    }
  }
  if (any) return absl::OkStatus();
  const auto name = [](std::string* out, const GradientAndVariable& pair) { out->append(pair.variable.name()); };
  return absl::InvalidArgumentError(
      absl::StrCat("No gradients provided for any variable, check your graph for ops that do not support gradients, ",
                   "between the loss and the variables [", absl::StrJoin(gradients, ", ", name), "]."));
}

Scope IfDue(const Scope& scope, UpdateConditions conditions, size_t i) {
  return conditions.empty() || !conditions[i].valid() ? scope : scope.OnlyIf(conditions[i]);
}

// The nodes that add gathered rows to the gradient of `table`, if there are no other terms; else nothing. Gradients
// adds nodes for the dense gradient, which are pruned when nobody reads them.
std::vector<const Node*> GatheredTerms(Output gradient, const Variable& table) {
  std::vector<const Node*> terms;
  std::vector<Output> sums = {gradient};
  while (!sums.empty()) {
    const Node& node = *sums.back().node;
    sums.pop_back();
    if (node.op().name == "AddN") {
      sums.insert(sums.end(), node.inputs().rbegin(), node.inputs().rend());
    } else if (node.op().name == "GatherGrad" && node.attrs().Int("axis") == 0) {
      terms.push_back(&node);
    } else {
      return {};
    }
  }
  return table.shape().rank() > 0 ? terms : std::vector<const Node*>();
}

// Replaces a gradient that only has gathered rows by these.
void MakeSparse(const Scope& scope, GradientAndVariable& pair) {
  if (!pair.gradient.valid() || pair.variable.shape().elements() == 0) return;
  const std::vector<const Node*> terms = GatheredTerms(pair.gradient, pair.variable);
  if (terms.empty()) return;
  const Scope rows_of = scope.NameScope("sparse_gradients").InPhase(terms[0]->phase(), terms[0]->computed_for());
  const bool wide =
      std::any_of(terms.begin(), terms.end(), [](const Node* term) { return term->input(1).dtype() == DType::kInt64; });
  std::vector<Output> rows, indices;
  for (const Node* term : terms) {
    const Shape row = pair.variable.shape().Remove(0);
    rows.push_back(ops::Reshape(rows_of, term->input(0), row.Insert(0, Shape::kUnknown)));
    const Output flat = ops::Reshape(rows_of, term->input(1), {Shape::kUnknown});
    indices.push_back(wide ? ops::Cast(rows_of, flat, DType::kInt64) : flat);
  }
  const bool one = terms.size() == 1;
  const ops::Gradient sum = ops::SumRows(rows_of, one ? rows[0] : ops::Concat(rows_of, rows, 0),
                                         one ? indices[0] : ops::Concat(rows_of, indices, 0));
  pair.gradient = sum.value;
  pair.indices = sum.indices;
}

std::string NoVariables(const Scope& scope) {
  int elsewhere = 0;
  for (const Variable& variable : scope.graph().variables()) {
    elsewhere += variable.trainable() && variable.replica() != scope.replica();
  }
  if (elsewhere == 0) return "No variables to optimize.";
  return absl::StrCat("No variables to optimize: the graph has ", elsewhere,
                      " trainable variables, but none of replica ", scope.replica(),
                      ", which is this scope's. Create a model's variables through the scope of its ", "tower.");
}

}  // namespace

std::vector<Variable> TrainableVariables(const Scope& scope) {
  std::vector<Variable> trainable;
  for (const Variable& variable : scope.graph().variables()) {
    if (!variable.trainable() || variable.replica() != scope.replica()) continue;
    if (absl::StartsWith(variable.name(), scope.variable_path())) trainable.push_back(variable);
  }
  return trainable;
}

std::vector<GradientAndVariable> ComputeGradients(OpScope scope, Output loss, absl::Span<const Variable> variables,
                                                  SparseGradients sparse) {
  if (!scope.status().ok()) return {};
  if (variables.empty()) {
    scope.Fail(absl::InvalidArgumentError(NoVariables(scope)));
    return {};
  }
  const std::vector<Output> xs(variables.begin(), variables.end());
  const auto gradients = Gradients(scope, {loss}, xs);
  if (!gradients.ok()) {
    scope.Fail(gradients.status());
    return {};
  }
  std::vector<GradientAndVariable> pairs;
  for (size_t i = 0; i < xs.size(); ++i) {
    pairs.push_back({(*gradients)[i], variables[i]});
    if (sparse == SparseGradients::kWherePossible) MakeSparse(scope, pairs.back());
  }
  return pairs;
}

Output L2Regularization(OpScope scope, absl::Span<const Variable> variables, double weight_decay,
                        const VariableFilter& filter) {
  const Scope inner = scope.NameScope("l2_regularization");
  std::vector<Output> squares;
  for (const Variable& variable : variables) {
    if (variable.valid() && (filter == nullptr || filter(variable))) {
      squares.push_back(ops::Sum(inner, ops::Square(inner, variable)));
    }
  }
  if (squares.empty()) return ops::Const(inner, 0.0f);
  return ops::Scale(inner, ops::AddN(inner, squares), weight_decay / 2);
}

std::vector<Output> ApplyUpdates(OpScope scope, const Optimizer& optimizer,
                                 absl::Span<const GradientAndVariable> gradients, UpdateConditions conditions) {
  if (!scope.status().ok()) return {};
  if (absl::Status status = CheckPairs(gradients); !status.ok()) {
    scope.Fail(status);
    return {};
  }
  std::vector<Output> updated;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const GradientAndVariable& pair = gradients[i];
    const Scope due = IfDue(scope, conditions, i);
    updated.push_back(pair.gradient.valid() ? optimizer.Apply(due, pair.variable, {pair.gradient, pair.indices})
                                            : Output());
    if (pair.gradient.valid() && !updated.back().valid()) return {};
  }
  return updated;
}

std::vector<Output> CountUpdates(OpScope scope, const Optimizer& optimizer,
                                 absl::Span<const GradientAndVariable> gradients, absl::Span<const Output> updated,
                                 UpdateConditions conditions) {
  if (!scope.status().ok() || updated.empty() || updated.size() != gradients.size()) return {};
  std::vector<Output> updates, counts;
  for (size_t i = 0; i < updated.size(); ++i) {
    if (!updated[i].valid()) continue;
    updates.push_back(updated[i]);
    const Variable& variable = gradients[i].variable;
    const absl::string_view slot = optimizer.count_slot(variable);
    if (slot.empty()) continue;
    const Variable count = UpdateCount(scope, variable, slot);
    if (!count.valid()) return {};
    const Scope after =
        UpdateScope(IfDue(scope, conditions, i), variable).Named(absl::StrCat("count_", variable.name()));
    counts.push_back(ops::Increment(after.ControlDependencies({updated[i]}), count));
  }
  counts.insert(counts.begin(), IncrementGlobalStep(scope.Replica(gradients[0].variable.replica()), updates));
  return scope.status().ok() ? counts : std::vector<Output>();
}

const Node* ApplyGradients(OpScope scope, const Optimizer& optimizer, absl::Span<const GradientAndVariable> gradients,
                           UpdateConditions conditions) {
  const std::vector<Output> updated = ApplyUpdates(scope, optimizer, gradients, conditions);
  const std::vector<Output> counts = CountUpdates(scope, optimizer, gradients, updated, conditions);
  return counts.empty() ? nullptr : ops::Group(scope.Named("train_op"), counts);
}

}  // namespace belfry::optim
