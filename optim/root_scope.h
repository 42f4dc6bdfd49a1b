// RootScope, internal to optim/.
#pragma once

#include "framework/graph/scope.h"

namespace belfry::optim {

// The scope for variables and nodes of a whole replica: empty name and variable path, no control inputs, existing
// variables reused, on the scope's device for variables.
Scope RootScope(const Scope& scope, int replica);

}  // namespace belfry::optim
