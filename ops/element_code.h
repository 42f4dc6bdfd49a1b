// The C++ text of element-wise ops, for kernels that are generated (framework/graph/element_code.h).
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

// Gives the built-in ops their element code, and the registry the declarations that it uses: the functors and rules
// from which the ops' own kernels are compiled.
void AddElementCode(OpRegistry& registry);

}  // namespace belfry::ops
