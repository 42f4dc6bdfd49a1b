#include "scaled_sine.h"

#include <cmath>
#include <vector>

#include "framework/base/parallel.h"
#include "framework/compiler/fusion_guard.h"
#include "framework/compiler/rewrite.h"

using namespace belfry;

namespace {

template <class T>
absl::StatusOr<Kernel> MakeScaledSine(const KernelSpec& spec) {
  const T factor = static_cast<T>(spec.attrs.Float("factor"));
  const int64_t elements = spec.outputs[0].shape.elements();
  return Kernel{[=](const KernelContext& context) {
    const T* x = context.input<T>(0);
    T* y = context.output<T>(0);
    ParallelFor(elements, /*cost=*/15, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = std::sin(factor * x[i]);
    });
    return absl::OkStatus();
  }};
}

absl::Status FuseScaledSines(Program& program, const RewriteContext& context) {
  const FusionGuard guard(program);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    ProgramNode& sine = program.nodes[i];
    if (sine.op->name != "Sin") continue;
    const int before = sine.inputs[0].node;
    const ProgramNode& scale = program.nodes[before];
    if (scale.op->name != "Scale" || !guard.Allows(before, static_cast<int>(i))) continue;
    const OpDef* fused = FusedOp(context, "ScaledSine", scale, {&sine});
    if (fused == nullptr) continue;  // no kernel for this device and dtype, or a program's own for one of the two
    sine.op = fused;
    sine.attrs = scale.attrs;  // T and factor
    sine.inputs = scale.inputs;
  }
  return Normalize(program);  // drops the Scale nodes, which nothing reads any more
}

}  // namespace

void RegisterScaledSine(OpRegistry& registry) {
  registry.Add(
      {.name = "ScaledSine",
       .inputs = {{.name = "x"}},
       .outputs = {{.name = "y"}},
       .types = {{"T", kWideFloatTypes}},
       .attrs = {{"factor", 1.0, true}},
       .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> { return std::vector{args.inputs[0]}; },
       .not_differentiable = true,  // it is made once gradients are
       .elementwise = true,
       .in_place = {{0, 0}},
       .kernels =
           Kernels<float, double>("CPU", [](auto tag) { return &MakeScaledSine<typename decltype(tag)::type>; })});
  registry.AddRewrite({"scaled_sine", FuseScaledSines});
}
