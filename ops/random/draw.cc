#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/copy/extents_impl.h"
#include "ops/random/draw_impl.h"

namespace belfry::ops {
namespace {

absl::Status CheckCounters(absl::Span<const Shape> counters) {
  if (counters.size() > 2) {
    return absl::InvalidArgumentError("takes at most two counters: the step and the first example");
  }
  for (const Shape& counter : counters) {
    if (counter.rank() != 0) {
      return absl::InvalidArgumentError(absl::StrCat("a counter must be a scalar, not ", counter.ToString()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Shape>> RandomShape(const ShapeArgs& args) {
  const Shape& shape = args.attrs.Get<Shape>("shape");
  if (!shape.known()) {
    return absl::InvalidArgumentError(absl::StrCat("the shape to draw must be fully known, not ", shape.ToString(),
                                                   "; an extent can be that of a tensor, as in Extent::Of(x, 0)"));
  }
  RETURN_IF_ERROR(CheckCounters(args.inputs));
  return std::vector<Shape>{shape};
}

absl::StatusOr<std::vector<Shape>> RandomToShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(Shape shape, CarriedShape(args.inputs[0]));
  RETURN_IF_ERROR(CheckCounters(args.inputs.subspan(1)));
  return std::vector<Shape>{std::move(shape)};
}

// The number of inputs before the counters: the carrier of the shape, unless that is an attribute.
int FirstCounter(const KernelSpec& spec) { return spec.attrs.Find("shape") == nullptr ? 1 : 0; }

}  // namespace

DrawPlan::DrawPlan(const KernelSpec& spec)
    : key_(RandomKey(static_cast<uint64_t>(spec.attrs.Int("seed")), spec.attrs.String("key"))),
      elements_(spec.outputs[0].shape.elements()),
      row_(spec.outputs[0].shape.rank() == 0 ? 1 : spec.outputs[0].shape.elements(1, spec.outputs[0].shape.rank())),
      first_counter_(FirstCounter(spec)),
      counters_(static_cast<int>(spec.inputs.size()) - first_counter_),
      per_step_(spec.attrs.Bool("per_step")) {}

DrawOrigin DrawPlan::Origin(const KernelContext& context) const {
  const int64_t *step = step_counter(context), *example = example_counter(context);
  DrawOrigin origin;
  origin.step = step != nullptr ? static_cast<uint64_t>(*step) : run_step(context);
  if (example != nullptr) origin.element = *example * row_;
  return origin;
}

OpDef RandomOpDef(absl::string_view name, absl::Span<const DType> types, std::vector<AttrDef> attrs,
                  std::vector<KernelDef> kernels) {
  attrs.push_back({"shape", Shape(), true});
  attrs.push_back({"seed", int64_t{0}});
  attrs.push_back({"key", std::string()});
  attrs.push_back({"per_step", false});
  return {.name = std::string(name),
          .inputs = {{.name = "counters", .type = "int64", .list = true}},
          .outputs = {{.name = "value"}},
          .types = {{"T", types}},
          .attrs = std::move(attrs),
          .shape = RandomShape,
          .not_differentiable = true,
          .stateful = true,
          .kernels = std::move(kernels)};
}

std::string RandomKeyName(const Scope& scope, absl::string_view op) {
  const std::string name = scope.graph().UniqueName(absl::StrCat(scope.name(), op, "/key"));
  if (scope.random_counters().size() < 2) return name;
  return name.substr(scope.name().size() - scope.random_path().size());
}

void AddRandomOps(OpRegistry& registry, OpDef op, OpRole role) {
  OpDef to = op;
  to.name = RandomToName(op.name);
  to.inputs.insert(to.inputs.begin(), {.name = "extents", .type = kCarrierType, .shape_only = true});
  std::erase_if(to.attrs, [](const AttrDef& attr) { return attr.name == "shape"; });
  to.shape = RandomToShape;
  registry.Add(std::move(to));
  registry.Add(WithRole(std::move(op), role));
}

Output AddRandom(const Scope& scope, absl::string_view op, const Extents& extents, const RandomOptions& options,
                 Attrs attrs) {
  attrs.Set("T", options.dtype);
  attrs.Set("seed", static_cast<int64_t>(scope.graph().seed()));
  attrs.Set("key", options.key.empty() ? RandomKeyName(scope, op) : options.key);
  attrs.Set("per_step", options.per_step);
  std::vector<Output> inputs = options.per_step ? scope.random_counters() : std::vector<Output>();
  if (extents.settled()) {
    attrs.Set("shape", extents.shape());
    return scope.Add(op, inputs, std::move(attrs));
  }
  inputs.insert(inputs.begin(), CarrierOf(scope, extents));
  const std::string name = scope.wanted_name().empty() ? std::string(op) : scope.wanted_name();
  return scope.Named(name).Add(RandomToName(op), inputs, std::move(attrs));
}

}  // namespace belfry::ops
