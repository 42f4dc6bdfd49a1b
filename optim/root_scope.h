// Scopes and names of what belongs to a whole replica. Internal to optim/ and models/.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"

namespace belfry::optim {

// The scope for variables and nodes of a whole replica: empty name and variable path, no control inputs, existing
// variables reused, on the scope's device for variables.
Scope RootScope(const Scope& scope, int replica);
// "<name>/global_step" in a training step with a name (Scope::InTrainStep), else "global_step".
std::string TrainStepName(const Scope& scope, absl::string_view name);

}  // namespace belfry::optim
