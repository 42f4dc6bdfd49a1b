#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/import/importer_impl.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::onnx {
namespace {

// y = compute(scope, x), in the order that x has.
template <class Compute>
absl::Status Activate(Importer& to, const Compute& compute) {
  const Order order = to.ResultOrder();
  const Output x = to.Operand(0, order);
  if (x.valid()) to.Out(compute(to.scope(), x), order);
  return absl::OkStatus();
}

absl::Status Simple(Importer& to) {
  return Activate(to, [&](const Scope& scope, Output x) { return to.rule().unary(scope, x); });
}

absl::Status LeakyRelu(Importer& to) {
  return Activate(to, [&](const Scope& s, Output x) { return ops::LeakyRelu(s, x, to.Float("alpha", 0.01)); });
}
absl::Status Elu(Importer& to) {
  return Activate(to, [&](const Scope& s, Output x) { return ops::Elu(s, x, to.Float("alpha", 1)); });
}

// Ours has the constants of the paper, which are ONNX's defaults.
absl::Status Selu(Importer& to) {
  if (to.Attribute("alpha") != nullptr || to.Attribute("gamma") != nullptr) {
    const double alpha = to.Float("alpha", 1.67326319), gamma = to.Float("gamma", 1.05070102);
    return Activate(to, [&](const Scope& s, Output x) { return ops::Scale(s, ops::Elu(s, x, alpha), gamma); });
  }
  return Activate(to, [](const Scope& s, Output x) { return ops::Selu(s, x); });
}

Output LinearClip(const Scope& scope, Output x, double alpha, double beta) {
  const Output line = ops::Add(scope, ops::Scale(scope, x, alpha), NumberOf(scope, beta, x.dtype()));
  return ops::ClipByValue(scope, line, 0, 1);
}
absl::Status HardSigmoid(Importer& to) {
  return Activate(
      to, [&](const Scope& s, Output x) { return LinearClip(s, x, to.Float("alpha", 0.2), to.Float("beta", 0.5)); });
}
absl::Status HardSwish(Importer& to) {
  return Activate(to, [](const Scope& s, Output x) { return ops::Mul(s, x, LinearClip(s, x, 1.0 / 6, 0.5)); });
}

absl::Status Gelu(Importer& to) {
  const std::string approximate = to.String("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    return absl::InvalidArgumentError(absl::StrCat("approximate is '", approximate, "'"));
  }
  return Activate(to, [&](const Scope& s, Output x) { return ops::Gelu(s, x, approximate == "tanh"); });
}
absl::Status Mish(Importer& to) {
  return Activate(to, [](const Scope& s, Output x) { return ops::Mul(s, x, ops::Tanh(s, ops::Softplus(s, x))); });
}
absl::Status Softsign(Importer& to) {
  return Activate(to, [](const Scope& s, Output x) {
    return ops::Div(s, x, ops::Add(s, ops::Abs(s, x), NumberOf(s, 1, x.dtype())));
  });
}

absl::Status PRelu(Importer& to) {
  const Order order = to.ResultOrder();
  const Output x = to.Operand(0, order), slope = to.Operand(1, order);
  if (!x.valid() || !slope.valid()) return absl::OkStatus();
  const Output negative = ops::Neg(to.scope(), ops::Relu(to.scope(), ops::Neg(to.scope(), x)));
  to.Out(ops::Add(to.scope(), ops::Relu(to.scope(), x), ops::Mul(to.scope(), slope, negative)), order);
  return absl::OkStatus();
}

absl::Status Clip(Importer& to) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double low = to.Float("min", -kInfinity), high = to.Float("max", kInfinity);
  if (to.Has(1)) {
    ASSIGN_OR_RETURN(low, to.KnownNumber(1));
  }
  if (to.Has(2)) {
    ASSIGN_OR_RETURN(high, to.KnownNumber(2));
  }
  return Activate(to, [&](const Scope& s, Output x) {
    if (low == 0 && high == 6 && IsFloating(x.dtype())) return ops::Relu6(s, x);
    if (IsFloating(x.dtype())) return ops::ClipByValue(s, x, low, high);
    Output y = low == -kInfinity ? x : ops::Maximum(s, x, NumberOf(s, low, x.dtype()));
    return high == kInfinity ? y : ops::Minimum(s, y, NumberOf(s, high, x.dtype()));
  });
}

constexpr ImportRule kActivations[] = {
    {"Relu", Simple, [](OpScope s, Output x) { return ops::Relu(s, x); }},
    {"Sigmoid", Simple, [](OpScope s, Output x) { return ops::Sigmoid(s, x); }},
    {"Tanh", Simple, [](OpScope s, Output x) { return ops::Tanh(s, x); }},
    {"Softplus", Simple, [](OpScope s, Output x) { return ops::Softplus(s, x); }},
    {"LeakyRelu", LeakyRelu},
    {"Elu", Elu},
    {"Selu", Selu},
    {"HardSigmoid", HardSigmoid},
    {"HardSwish", HardSwish},
    {"Gelu", Gelu},
    {"Mish", Mish},
    {"Softsign", Softsign},
    {"PRelu", PRelu},
    {"Clip", Clip},
};

}  // namespace

absl::Span<const ImportRule> ActivationImports() { return kActivations; }

}  // namespace belfry::onnx
