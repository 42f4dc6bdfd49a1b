// Weight decay as a term of the loss. Optimizers also take weight decay as an option, which saves a pass over memory.
#pragma once

#include "absl/types/span.h"
#include "optim/optimizer.h"

namespace belfry::optim {

// weight_decay / 2 times the sum of squares of the variables that `filter` accepts, which have one dtype: a scalar of
// that dtype whose gradient is weight_decay * variable. A float32 zero if there are none.
Output L2Regularization(OpScope scope, absl::Span<const Variable> variables, double weight_decay,
                        const VariableFilter& filter = IsWeight);

}  // namespace belfry::optim
