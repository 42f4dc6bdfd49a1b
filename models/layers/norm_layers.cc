#include "models/layers/norm_layers.h"

#include "absl/strings/str_cat.h"
#include "models/layers/layers_impl.h"
#include "ops/nn.h"

namespace belfry::models {
namespace {

// True if x has `rank` axes or more, and a known last one.
bool HasChannels(const Scope& scope, absl::string_view layer, absl::string_view name, const Output& x, int rank) {
  if (!x.valid()) {
    Reject(scope, layer, name, "has an invalid Output as input", x);
  } else if (!IsFloating(x.dtype())) {
    Reject(scope, layer, name, kNeedsFloats, x);
  } else if (x.shape().rank() < rank) {
    Reject(scope, layer, name, absl::StrCat("needs an input of rank ", rank, " or more"), x);
  } else if (x.shape()[-1] == Shape::kUnknown) {
    Reject(scope, layer, name, "needs an input with a known last extent", x);
  } else {
    return true;
  }
  return false;
}

Output Gamma(const Scope& layer, const Output& x) {
  return GetParameter(layer, "gamma", {x.shape()[-1]}, ConstantInitializer(1), x.dtype()).used;
}
Output Beta(const Scope& layer, const Output& x) {
  return GetParameter(layer, "beta", {x.shape()[-1]}, ZerosInitializer(), x.dtype()).used;
}

}  // namespace

Output LayerNorm(OpScope scope, absl::string_view name, Output x, double epsilon) {
  if (!HasChannels(scope, "LayerNorm", name, x, 1)) return Output();
  const Scope layer = scope.VariableScope(name);
  return ops::LayerNorm(layer, x, Gamma(layer, x), Beta(layer, x), epsilon);
}

Output RmsNorm(OpScope scope, absl::string_view name, Output x, double epsilon) {
  if (!HasChannels(scope, "RmsNorm", name, x, 1)) return Output();
  const Scope layer = scope.VariableScope(name);
  return ops::RmsNorm(layer, x, Gamma(layer, x), epsilon);
}

Output GroupNorm(OpScope scope, absl::string_view name, Output x, int64_t groups, double epsilon) {
  if (!HasChannels(scope, "GroupNorm", name, x, 2)) return Output();
  const int64_t channels = x.shape()[-1];
  if (groups < 1 || channels % groups != 0) {
    return Reject(scope, "GroupNorm", name,
                  absl::StrCat("cannot split ", channels, " channels into ", groups, " groups"), x);
  }
  const Scope layer = scope.VariableScope(name);
  return ops::GroupNorm(layer, x, Gamma(layer, x), Beta(layer, x), groups, epsilon);
}

}  // namespace belfry::models
