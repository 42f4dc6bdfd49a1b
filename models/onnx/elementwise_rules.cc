#include <cmath>

#include "models/onnx/exporter_impl.h"

namespace belfry::onnx {
namespace {

using std::string;

// One op of ONNX that takes and broadcasts the same operands.
absl::Status Same(Exporter& to) {
  const Layout layout = to.ResultLayout();
  std::vector<string> operands;
  for (int i = 0; i < static_cast<int>(to.node().inputs().size()); ++i) operands.push_back(to.Operand(i, layout));
  to.Out(to.Add(to.rule().onnx, operands), layout);
  return absl::OkStatus();
}

// y = compute(x) by several ops.
template <class Compute>
absl::Status Of(Exporter& to, const Compute& compute) {
  const Layout layout = to.ResultLayout();
  to.Out(compute(to.Operand(0, layout)), layout);
  return absl::OkStatus();
}
// y = compute(a, b).
template <class Compute>
absl::Status OfTwo(Exporter& to, const Compute& compute) {
  const Layout layout = to.ResultLayout();
  const string a = to.Operand(0, layout), b = to.Operand(1, layout);
  to.Out(compute(a, b), layout);
  return absl::OkStatus();
}

absl::Status NotEqual(Exporter& to) {
  return OfTwo(to, [&](const string& a, const string& b) { return to.Add("Not", {to.Add("Equal", {a, b})}); });
}
absl::Status SquaredDifference(Exporter& to) {
  return OfTwo(to, [&](const string& a, const string& b) {
    const string difference = to.Add("Sub", {a, b});
    return to.Add("Mul", {difference, difference});
  });
}
absl::Status Square(Exporter& to) {
  return Of(to, [&](const string& x) { return to.Add("Mul", {x, x}); });
}
absl::Status Scale(Exporter& to) {
  return Of(to, [&](const string& x) { return to.Add("Mul", {x, to.Number(to.attrs().Float("factor"))}); });
}
absl::Status Rsqrt(Exporter& to) {
  return Of(to, [&](const string& x) { return to.Add("Reciprocal", {to.Add("Sqrt", {x})}); });
}
absl::Status Expm1(Exporter& to) {
  return Of(to, [&](const string& x) { return to.Add("Sub", {to.Add("Exp", {x}), to.Number(1)}); });
}
absl::Status Log1p(Exporter& to) {
  return Of(to, [&](const string& x) { return to.Add("Log", {to.Add("Add", {x, to.Number(1)})}); });
}
absl::Status Erfc(Exporter& to) {
  return Of(to, [&](const string& x) { return to.Add("Sub", {to.Number(1), to.Add("Erf", {x})}); });
}
absl::Status IsFinite(Exporter& to) {
  return Of(to, [&](const string& x) { return to.Add("Equal", {to.Add("Sub", {x, x}), to.Number(0)}); });
}

absl::Status Clip(Exporter& to, double low, double high) {
  return Of(to, [&](const string& x) { return to.Add("Clip", {x, to.Number(low), to.Number(high)}); });
}
absl::Status Relu6(Exporter& to) { return Clip(to, 0, 6); }
absl::Status ClipByValue(Exporter& to) { return Clip(to, to.attrs().Float("low"), to.attrs().Float("high")); }

// LeakyRelu and Elu.
absl::Status OfAlpha(Exporter& to) {
  return Of(to, [&](const string& x) { return to.Add(to.rule().onnx, {x}, {{"alpha", to.attrs().Float("alpha")}}); });
}

absl::Status Silu(Exporter& to) {
  return Of(to, [&](const string& x) { return to.Add("Mul", {x, to.Add("Sigmoid", {x})}); });
}

// x Phi(x), or its approximation (ops/nn.h).
absl::Status Gelu(Exporter& to) {
  return Of(to, [&](const string& x) {
    string argument;
    if (to.attrs().Bool("approximate")) {
      const string cube = to.Add("Mul", {to.Add("Mul", {x, x}), x});
      const string sum = to.Add("Add", {x, to.Add("Mul", {cube, to.Number(0.044715)})});
      argument = to.Add("Tanh", {to.Add("Mul", {sum, to.Number(std::sqrt(2 / M_PI))})});
    } else {
      argument = to.Add("Erf", {to.Add("Mul", {x, to.Number(std::sqrt(0.5))})});
    }
    const string twice = to.Add("Mul", {x, to.Add("Add", {argument, to.Number(1)})});
    return to.Add("Mul", {twice, to.Number(0.5)});
  });
}

absl::Status AddN(Exporter& to) {
  const Layout layout = to.ResultLayout();
  string sum = to.Operand(0, layout);
  for (int i = 1; i < static_cast<int>(to.node().inputs().size()); ++i) {
    sum = to.Add("Add", {sum, to.Operand(i, layout)});
  }
  to.Out(sum, layout);
  return absl::OkStatus();
}

absl::Status Cast(Exporter& to) {
  const Layout layout = to.ResultLayout();
  const DType dtype = to.ComputeType(to.node().output(0).dtype());  // Out rounds it
  const string x = to.In(0, layout);
  to.Out(to.ComputeType() == dtype ? x : to.CastTo(x, dtype), layout);
  return absl::OkStatus();
}

// x [..., C] + bias [C]; a convolution takes the bias itself.
absl::Status BiasAdd(Exporter& to) {
  const DType dtype = to.node().input(0).dtype();
  NodeProto* const convolution = to.SoleProducer("Conv");
  if (convolution != nullptr && convolution->input_size() == 2 && to.ConstantIn(1) != nullptr &&
      to.ComputeType(dtype) == dtype) {
    const auto [result, layout] = to.RawInput();
    convolution->add_input(to.In(1));
    to.Out(result, layout);
    return absl::OkStatus();
  }
  const Layout layout = to.ResultLayout();
  to.Out(to.Add("Add", {to.Operand(0, layout), to.Operand(1, layout)}), layout);
  return absl::OkStatus();
}

absl::Status Unchanged(Exporter& to) {
  to.SameAsInput();
  return absl::OkStatus();
}

constexpr Rule kElementwiseRules[] = {
    {"Add", Same, "Add"},
    {"Sub", Same, "Sub"},
    {"Mul", Same, "Mul"},
    {"RealDiv", Same, "Div"},
    {"Pow", Same, "Pow"},
    {"Maximum", Same, "Max", true},
    {"Minimum", Same, "Min", true},
    {"SquaredDifference", SquaredDifference, "", false, true},
    {"Neg", Same, "Neg", true},
    {"Abs", Same, "Abs", true},
    {"Sign", Same, "Sign", true},
    {"Floor", Same, "Floor"},
    {"Ceil", Same, "Ceil"},
    {"Round", Same, "Round"},
    {"RoundThrough", Same, "Round"},
    {"Square", Square},
    {"Scale", Scale},
    {"ClipByValue", ClipByValue},
    {"AddN", AddN, "", false, true},
    {"Exp", Same, "Exp"},
    {"Expm1", Expm1, "", false, true},
    {"Log", Same, "Log"},
    {"Log1p", Log1p, "", false, true},
    {"Sqrt", Same, "Sqrt"},
    {"Rsqrt", Rsqrt, "", false, true},
    {"Reciprocal", Same, "Reciprocal"},
    {"Sin", Same, "Sin"},
    {"Cos", Same, "Cos"},
    {"Erf", Same, "Erf"},
    {"Erfc", Erfc, "", false, true},
    {"Sigmoid", Same, "Sigmoid"},
    {"Tanh", Same, "Tanh"},
    {"Equal", Same, "Equal"},
    {"NotEqual", NotEqual},
    {"Less", Same, "Less"},
    {"LessEqual", Same, "LessOrEqual"},
    {"Greater", Same, "Greater"},
    {"GreaterEqual", Same, "GreaterOrEqual"},
    {"LogicalAnd", Same, "And"},
    {"LogicalOr", Same, "Or"},
    {"LogicalXor", Same, "Xor"},
    {"LogicalNot", Same, "Not"},
    {"IsNan", Same, "IsNaN"},
    {"IsFinite", IsFinite},
    {"Select", Same, "Where", true},
    {"Cast", Cast},
    {"Relu", Same, "Relu", true},
    {"Relu6", Relu6},
    {"LeakyRelu", OfAlpha, "LeakyRelu"},
    {"Elu", OfAlpha, "Elu"},
    {"Selu", Same, "Selu"},
    {"Gelu", Gelu, "", false, true},
    {"Silu", Silu, "", false, true},
    {"Softplus", Same, "Softplus"},
    {"BiasAdd", BiasAdd},
    {"Identity", Unchanged},
    {"StopGradient", Unchanged},
    {"CheckNumerics", Unchanged},
};

}  // namespace

absl::Span<const Rule> ElementwiseRules() { return kElementwiseRules; }

}  // namespace belfry::onnx
