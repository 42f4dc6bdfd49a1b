// The size of a model.
#pragma once

#include <cstdint>

#include "framework/graph/scope.h"

namespace belfry::models {

// The elements of all trainable variables of the scope's replica.
int64_t ParameterCount(const Scope& scope);

}  // namespace belfry::models
