// Helpers of the layers: errors, and parameters in the type in which a layer computes. Internal.
#pragma once

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"
#include "framework/graph/variable.h"

namespace belfry::models {

// Reports that a layer cannot be built: `what` describes the problem with it or with its input x. Returns an invalid
// Output.
Output Reject(const Scope& scope, absl::string_view layer, absl::string_view name, absl::string_view what,
              const Output& x);

inline constexpr char kNeedsFloats[] = "needs an input of floating-point numbers (ops::Cast)";

// A parameter as it is stored, and as a layer that computes in `dtype` uses it.
struct Parameter {
  Variable kept;
  Output used;
};
// Updates are too small for 16 bits, so the stored parameter is float32 (Micikevicius et al., "Mixed precision
// training", 2018).
Parameter GetParameter(const Scope& scope, absl::string_view name, const Shape& shape, const Initializer& initializer,
                       DType dtype);

}  // namespace belfry::models
