// The C++ text of element-wise ops, for kernels that are generated (framework/graph/element_code.h).
#pragma once

#include <string>

#include "framework/graph/op_def.h"

namespace belfry::ops {

// The element code of an op that calls `function`, a function object, with an element of each of its inputs: such as
// "functor::Scale<{T}>{{T}({factor})}", with {T} for the type in which input 0 is computed, and {factor} for an
// attribute that is a number.
ElementCodeFactory ElementMap(std::string function);

// Gives other built-in ops their element code, and the registry the declarations that all of it uses: the functors and
// rules from which the ops' own kernels are compiled.
void AddElementCode(OpRegistry& registry);

}  // namespace belfry::ops
