// The C++ text of element-wise ops, from which kernels are generated for devices that compile them
// (compiler/elementwise_codegen/kernel_source.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/graph/kernel.h"

namespace belfry {

// The computation of one element of an op's result, or of the variable and the slots that it updates.
//
// `function` is an expression of a function object, which may use OpRegistry::element_declarations(). It is called with
// the elements of `operands` in that order; 16-bit floats come as float. It returns the result, or modifies its first
// arguments where these are variables (ArgDef::ref). "$2" in it stands for the number that input 2 holds, in its own
// dtype: such an input has one element, and the object is made once for many elements.
struct ElementCode {
  std::string function;
  std::vector<int> operands;
  // Set for an op that only moves elements: y [columns, rows] is x [rows, columns] transposed. `function` is empty.
  int64_t rows = 0, columns = 0;
  int condition = -1;  // the input, a bool, without which nothing is updated; -1 if there is none
};

// Nothing for a node of which no kernel can be generated.
using ElementCodeFactory = std::function<std::optional<ElementCode>(const KernelSpec&)>;

}  // namespace belfry
