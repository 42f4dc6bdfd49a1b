#include "models/layers/parameters.h"

#include "optim/apply.h"

namespace belfry::models {

int64_t ParameterCount(const Scope& scope) {
  int64_t count = 0;
  for (const Variable& variable : optim::TrainableVariables(scope)) count += variable.shape().elements();
  return count;
}

}  // namespace belfry::models
