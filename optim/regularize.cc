#include "optim/regularize.h"

#include <vector>

#include "ops/array.h"
#include "ops/math.h"

namespace belfry::optim {

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

}  // namespace belfry::optim
