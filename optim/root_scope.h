// Internal to optim/.
#pragma once

#include "framework/graph/scope.h"

namespace belfry::optim {

// Where variables and nodes that belong to a whole replica are made: no name or variable path and no control inputs,
// found again if they are there; on the scope's device for variables.
Scope RootScope(const Scope& scope, int replica);

}  // namespace belfry::optim
