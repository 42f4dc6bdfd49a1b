#include <string>

#include "absl/strings/str_cat.h"
#include "ops/random/draw_impl.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> RandomShape(const ShapeArgs& args) {
  const Shape& shape = args.attrs.Get<Shape>("shape");
  if (!shape.known()) {
    return absl::InvalidArgumentError(absl::StrCat("the shape to draw must be fully known, not ", shape.ToString()));
  }
  if (args.inputs.size() > 2) {
    return absl::InvalidArgumentError("takes at most two counters: the step and the first example");
  }
  for (const Shape& counter : args.inputs) {
    if (counter.rank() != 0) {
      return absl::InvalidArgumentError(absl::StrCat("a counter must be a scalar, not ", counter.ToString()));
    }
  }
  return std::vector<Shape>{shape};
}

}  // namespace

DrawPlan::DrawPlan(const KernelSpec& spec, const Shape& shape, int first_counter)
    : key_(RandomKey(static_cast<uint64_t>(spec.attrs.Int("seed")), spec.attrs.String("key"))),
      elements_(shape.elements()),
      row_(shape.rank() == 0 ? 1 : shape.elements(1, shape.rank())),
      first_counter_(first_counter),
      counters_(static_cast<int>(spec.inputs.size()) - first_counter),
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

Output AddRandom(const Scope& scope, absl::string_view op, const Shape& shape, const RandomOptions& options,
                 Attrs attrs) {
  attrs.Set("T", options.dtype);
  attrs.Set("shape", shape);
  attrs.Set("seed", static_cast<int64_t>(scope.graph().seed()));
  attrs.Set("key", options.key.empty() ? RandomKeyName(scope, op) : options.key);
  attrs.Set("per_step", options.per_step);
  return scope.Add(op, options.per_step ? scope.random_counters() : std::vector<Output>(), std::move(attrs));
}

}  // namespace belfry::ops
