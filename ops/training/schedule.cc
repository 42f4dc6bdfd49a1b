#include "ops/schedule.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "ops/training/curves.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

// The rate at a step, given the rate of the schedule below.
using Curve = std::function<double(int64_t step, double rate)>;

absl::StatusOr<Curve> MakePiecewise(const Attrs& attrs) {
  const std::vector<int64_t>& boundaries = attrs.Ints("boundaries");
  const Tensor& values = attrs.Get<Tensor>("values");
  if (values.dtype() != DType::kFloat64 || values.elements() != static_cast<int64_t>(boundaries.size()) + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs one value more than its ", boundaries.size(), " boundaries, but has ", values.elements()));
  }
  if (!std::is_sorted(boundaries.begin(), boundaries.end())) {
    return absl::InvalidArgumentError("the boundaries must be ascending");
  }
  return Curve([boundaries, values = values.ToDoubles()](int64_t step, double) {
    return PiecewiseAt(boundaries.data(), values.data(), static_cast<int64_t>(boundaries.size()), step);
  });
}

absl::StatusOr<Curve> MakeInterpolated(const Attrs& attrs) {
  const std::vector<int64_t>& steps = attrs.Ints("steps");
  const Tensor& values = attrs.Get<Tensor>("values");
  if (steps.empty() || values.dtype() != DType::kFloat64 || values.elements() != static_cast<int64_t>(steps.size())) {
    return absl::InvalidArgumentError(absl::StrCat("needs a value for each of its steps, at least one, but has ",
                                                   values.elements(), " for ", steps.size(), " steps"));
  }
  if (std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) != steps.end()) {
    return absl::InvalidArgumentError("the steps must be ascending, without equal ones");
  }
  return Curve([steps, values = values.ToDoubles()](int64_t step, double) {
    return InterpolatedAt(steps.data(), values.data(), static_cast<int64_t>(steps.size()), step);
  });
}

// A curve of ops/training/curves.h, after a check of the number of steps it takes.
template <template <class> class C>
absl::StatusOr<Curve> MakeCurve(const Attrs& attrs) {
  for (const char* name : {"decay_steps", "warmup_steps"}) {
    if (attrs.Find(name) == nullptr || attrs.Int(name) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' must be positive, but is ", attrs.Int(name)));
  }
  return Curve(C<double>(attrs));
}

struct CurveDef {
  absl::string_view op;
  std::vector<AttrDef> attrs;
  absl::StatusOr<Curve> (*make)(const Attrs& attrs);
  bool scales = false;  // takes a second input, the rate
};

std::vector<CurveDef> Curves() {
  const AttrDef initial{"initial", 0.0, true}, decay_steps{"decay_steps", int64_t{0}, true};
  return {{"PiecewiseRate", {{"boundaries", std::vector<int64_t>(), true}, {"values", Tensor(), true}}, MakePiecewise},
          {"InterpolatedRate", {{"steps", std::vector<int64_t>(), true}, {"values", Tensor(), true}}, MakeInterpolated},
          {"ExponentialRate",
           {initial, {"rate", 0.0, true}, decay_steps, {"staircase", false}},
           MakeCurve<ExponentialCurve>},
          {"PolynomialRate", {initial, {"end", 0.0}, {"power", 1.0}, decay_steps}, MakeCurve<PolynomialCurve>},
          {"RampRate", {initial, {"end", 0.0, true}, {"power", 1.0}, decay_steps}, MakeCurve<RampCurve>},
          {"CosineRate", {initial, {"floor", 0.0}, decay_steps}, MakeCurve<CosineCurve>},
          {"WarmUpRate", {{"start", 0.0}, {"warmup_steps", int64_t{0}, true}}, MakeCurve<WarmUpCurve>, true}};
}

OpDef RateOpDef(const CurveDef& curve) {
  static constexpr DType kStepType[] = {DType::kInt64};
  std::vector<ArgDef> inputs = {{.name = "step"}};
  if (curve.scales) inputs.push_back({.name = "rate", .type = "float32"});
  const auto make = curve.make;
  const auto check = [make](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
    for (const Shape& shape : args.inputs) {
      if (shape.rank() != 0) return absl::InvalidArgumentError("takes scalars, not " + shape.ToString());
    }
    RETURN_IF_ERROR(make(args.attrs).status());
    return std::vector<Shape>{Shape()};
  };
  const auto factory = [make, scales = curve.scales](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
    ASSIGN_OR_RETURN(const Curve rate_at, make(spec.attrs));
    return Kernel{[rate_at, scales](const KernelContext& context) {
      const double rate = scales ? context.input<float>(1)[0] : 0;
      context.output<float>(0)[0] = static_cast<float>(rate_at(context.input<int64_t>(0)[0], rate));
      return absl::OkStatus();
    }};
  };
  OpDef op{.name = std::string(curve.op),
           .inputs = inputs,
           .outputs = {{.name = "rate", .type = "float32"}},
           .types = {{"T", kStepType}},
           .attrs = curve.attrs,
           .shape = check,
           .not_differentiable = !curve.scales,
           .kernels = {{"CPU", DType::kInt64, factory}}};
  if (curve.scales) {  // the rate by a factor
    op.gradient = [](const Scope& scope, const Node& node, absl::Span<const Output> dy) -> std::vector<Output> {
      const Attrs attrs = {{"start", node.attrs().Float("start")}, {"warmup_steps", node.attrs().Int("warmup_steps")}};
      return {Output(), scope.Add("WarmUpRate", {node.input(0), dy[0]}, attrs)};
    };
  }
  return op;
}

}  // namespace

absl::StatusOr<double> RateAt(absl::string_view op, const Attrs& attrs, int64_t step, double rate) {
  for (const CurveDef& def : Curves()) {
    if (def.op != op) continue;
    ASSIGN_OR_RETURN(const Curve curve, def.make(attrs));
    return curve(step, rate);
  }
  BELFRY_CHECK(!"unknown schedule op");
  return 0.0;
}

void RegisterScheduleOps(OpRegistry& registry) {
  for (const CurveDef& curve : Curves()) registry.Add(RateOpDef(curve));
}

}  // namespace belfry::ops
