// Weight decay as a term of the loss. Optimizers also take it as an option, which costs no pass over memory.
#pragma once

#include "absl/types/span.h"
#include "optim/optimizer.h"

namespace belfry::optim {

// weight_decay / 2 times the sum of the squares of those variables that `filter` accepts, a scalar of their dtype (one
// for all): its gradient is weight_decay * variable. Zero, in float32, if there are none.
Output L2Regularization(OpScope scope, absl::Span<const Variable> variables, double weight_decay,
                        const VariableFilter& filter = IsWeight);

}  // namespace belfry::optim
