#include "ops/common/op_rules_impl.h"

#include <cmath>
#include <utility>

#include "framework/graph/gradients.h"

namespace belfry::ops {

absl::StatusOr<std::vector<Shape>> SameAsFirst(const ShapeArgs& args) { return std::vector<Shape>{args.inputs[0]}; }

absl::StatusOr<std::vector<Shape>> SameAsAll(const ShapeArgs& args) {
  Shape shape = args.inputs[0];
  for (size_t i = 1; i < args.inputs.size(); ++i) {
    absl::StatusOr<Shape> merged = shape.Merge(args.inputs[i]);
    if (!merged.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("input 0 has shape ", args.inputs[0].ToString(), " and input ", i,
                                                     " has ", args.inputs[i].ToString(), "; they must be equal"));
    }
    shape = *merged;
  }
  return std::vector<Shape>{shape};
}

GradientFunction NoGradient(std::string why) {
  return [why = std::move(why)](const Scope& scope, const Node& node, absl::Span<const Output>) {
    scope.Fail(absl::UnimplementedError(
        absl::StrCat("No gradient defined for operation '", node.name(), "' (op type: ", node.op().name, "): ", why)));
    return std::vector<Output>(node.inputs().size());
  };
}

GradientFunction GradientOfSlope(std::string op, std::vector<std::string> attrs, Curvature curvature) {
  return [op = std::move(op), attrs = std::move(attrs), curvature = std::move(curvature)](
             const Scope& scope, const Node& node, absl::Span<const Output> dys) -> std::vector<Output> {
    Attrs passed;
    for (const std::string& name : attrs) passed.Set(name, *node.attrs().Find(name));
    const Output dy = node.input(0), v = node.input(1);
    Output of_v;
    if (curvature != nullptr) {
      of_v = scope.Add("Mul", {scope.Add("Mul", {dys[0], dy}), curvature(scope, node, v)});
    }
    return {scope.Add(op, {dys[0], v}, std::move(passed)), of_v};
  };
}

GradientFunction GradientOfGradient(Forward forward, Sources sources) {
  return [forward = std::move(forward), sources = std::move(sources)](const Scope& scope, const Node& node,
                                                                      absl::Span<const Output> dys) {
    const auto cast = [&](const Output& x, DType dtype) {
      return x.dtype() == dtype ? x : scope.Add("Cast", {x}, {{"DstT", dtype}});
    };
    std::vector<Output> inputs(node.inputs().begin(), node.inputs().end());
    if (sources != nullptr) inputs = sources(scope, node);
    std::vector<Output> result(inputs.size()), xs;
    std::vector<size_t> at;  // of the xs among the inputs
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!IsFloating(inputs[i].dtype())) continue;
      // An input may be computed from another one; the derivative leaves that path to the inputs' own rules.
      xs.push_back(scope.Add("Identity", {inputs[i]}));
      at.push_back(i);
      inputs[i] = SizeOf(xs.back().dtype()) == 2 ? cast(xs.back(), DType::kFloat32) : xs.back();
    }
    const Differentiable made = scope.status().ok() ? forward(scope, node, inputs) : Differentiable();
    if (!scope.status().ok()) return result;
    const auto derive = [&](absl::Span<const Output> of, absl::Span<const Output> by, std::vector<Output> slopes) {
      absl::StatusOr<std::vector<Output>> gradients = Gradients(scope, of, by, {.grad_ys = std::move(slopes)});
      if (!gradients.ok()) scope.Fail(gradients.status());
      return gradients.ok() ? *std::move(gradients) : std::vector<Output>(by.size());
    };
    std::vector<Output> firsts, slopes;
    const std::vector<Output> all = derive(made.ys, made.xs, made.dys);
    for (size_t i = 0; i < dys.size(); ++i) {
      if (!dys[i].valid() || !all[i].valid()) continue;
      firsts.push_back(all[i]);
      slopes.push_back(cast(dys[i], all[i].dtype()));
    }
    const std::vector<Output> seconds = derive(firsts, xs, slopes);
    for (size_t i = 0; i < at.size(); ++i) result[at[i]] = seconds[i];
    result.resize(node.inputs().size());
    return result;
  };
}

GradientFunction GradientFrom(std::string gradient, bool from_output, std::vector<std::string> attrs) {
  return [gradient = std::move(gradient), from_output, attrs = std::move(attrs)](
             const Scope& scope, const Node& node, absl::Span<const Output> dy) -> std::vector<Output> {
    Attrs passed;
    for (const std::string& name : attrs) passed.Set(name, *node.attrs().Find(name));
    return {scope.Add(gradient, {dy[0], from_output ? node.output(0) : node.input(0)}, std::move(passed))};
  };
}

absl::Status CheckEpsilon(const Attrs& attrs) {
  const double epsilon = attrs.Float("epsilon");
  if (epsilon >= 0 && std::isfinite(epsilon)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("epsilon must be finite and at least 0, but is ", epsilon));
}

}  // namespace belfry::ops
