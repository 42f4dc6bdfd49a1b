// The number of parameters of a model.
#pragma once

#include <cstdint>

#include "framework/graph/scope.h"

namespace belfry::models {

// The number of elements in all trainable variables of the scope's replica, below its variable path.
int64_t ParameterCount(const Scope& scope);

}  // namespace belfry::models
