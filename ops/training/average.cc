#include "framework/base/status.h"
#include "ops/common/op_rules_impl.h"
#include "ops/only_if.h"
#include "ops/training.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeMovingAverage(const KernelSpec& spec) {
  using C = UpdateMath<T>;
  return Kernel{[n = spec.outputs[0].shape.elements(), rule = MovingAverageRule(spec.attrs)](const KernelContext& at) {
    ForEachUpdate<T>(n, 0, at.ref<T>(0), std::array<T*, 0>(), at.input<T>(2), rule.At<C>(at.input<int64_t>(1)[0]));
    return absl::OkStatus();
  }};
}

absl::StatusOr<std::vector<Shape>> AverageShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckRates(args.attrs));
  RETURN_IF_ERROR(CheckOnlyIf(args, 3));
  if (args.inputs[1].rank() != 0) return absl::InvalidArgumentError("the step must be a scalar");
  if (!args.inputs[0].CompatibleWith(args.inputs[2])) {
    return absl::InvalidArgumentError("the average has shape " + args.inputs[0].ToString() + ", but the value has " +
                                      args.inputs[2].ToString());
  }
  return std::vector<Shape>{args.inputs[0]};
}

}  // namespace

Output ApplyMovingAverage(OpScope scope, const Variable& average, Output step, Output value,
                          const MovingAverageAttrs& attrs) {
  return scope.Add("ApplyMovingAverage", {average, step, value},
                   {{"decay", attrs.decay}, {"use_step", attrs.use_step}});
}

void RegisterAverageOps(OpRegistry& registry) {
  registry.Add(
      {.name = "ApplyMovingAverage",
       .inputs = {{.name = "average", .ref = true}, {.name = "step", .type = "int64"}, {.name = "value"}, OnlyIfArg()},
       .outputs = {{.name = "updated", .ref = true}},
       .types = {{"T", kFloatTypes}},
       .attrs = {{"decay", 0.999}, {"use_step", true}},
       .shape = AverageShape,
       .gradient = NoGradient(kOfUpdates),
       .elementwise = true,
       .stateful = true,
       .kernels = Conditional(Kernels<float, double, Half, BFloat16>(
                                  "CPU", [](auto tag) { return &MakeMovingAverage<typename decltype(tag)::type>; }),
                              3)});
}

}  // namespace belfry::ops
