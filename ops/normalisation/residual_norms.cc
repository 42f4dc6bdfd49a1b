#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "ops/activation/add_and_mask_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/common/row_pieces_impl.h"
#include "ops/normalisation/normalisation_ops.h"
#include "ops/normalisation/row_norm_impl.h"

namespace belfry::ops {
namespace {

// Inputs x, addend and the others of the norm; outputs x + addend and its norm.
template <class T>
absl::StatusOr<Kernel> AddThenNorm(const KernelSpec& spec, const KernelFactory& make) {
  const int64_t elements = spec.outputs[0].shape.elements();
  ASSIGN_OR_RETURN(Kernel norm,
                   make({spec.name, spec.attrs, spec.inputs.subspan(1), spec.outputs.subspan(1, 1), spec.device}));
  norm.run = [elements, run = std::move(norm.run), count = spec.inputs.size()](const KernelContext& at) {
    AddAndMask<T>(elements, at.input<T>(0), at.input<T>(1), nullptr, at.output<T>(0));
    const void* inputs[3] = {at.outputs[0]};
    std::copy(at.inputs + 2, at.inputs + count, inputs + 1);
    KernelContext then = at;
    then.inputs = inputs;
    then.outputs = at.outputs + 1;
    return run(then);
  };
  return norm;
}

// Inputs x, scale, dy, addend; outputs those of the norm's gradient, with the addend added to dx.
template <class T>
absl::StatusOr<Kernel> GradThenAdd(const KernelSpec& spec, const KernelFactory& make) {
  const int64_t elements = spec.outputs[0].shape.elements();
  ASSIGN_OR_RETURN(Kernel gradient,
                   make({spec.name, spec.attrs, spec.inputs.subspan(0, 3), spec.outputs, spec.device}));
  gradient.run = [elements, run = std::move(gradient.run)](const KernelContext& at) {
    RETURN_IF_ERROR(run(at));
    AddAndMask<T>(elements, at.output<T>(0), at.input<T>(3), nullptr, at.output<T>(0));
    return absl::OkStatus();
  };
  gradient.in_place = false;
  return gradient;
}

absl::StatusOr<std::vector<Shape>> NormShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape x, args.inputs[0].Merge(args.inputs[1]));
  Shape scale = args.inputs[2];
  for (const Shape& offset : args.inputs.subspan(3)) {
    ASSIGN_OR_RETURN(scale, scale.Merge(offset));
  }
  ASSIGN_OR_RETURN(const Shape y, TrailingNormShape(x, scale, "scale and offset"));
  return std::vector<Shape>{y, y};
}

absl::StatusOr<std::vector<Shape>> GradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(Shape x, args.inputs[0].Merge(args.inputs[2]));
  ASSIGN_OR_RETURN(x, x.Merge(args.inputs[3]));
  return std::vector<Shape>{x, args.inputs[1], args.inputs[1]};
}
absl::StatusOr<std::vector<Shape>> GradShapeOfTwo(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(std::vector<Shape> shapes, GradShape(args));
  shapes.pop_back();
  return shapes;
}

OpDef DefOf(const std::string& name, double epsilon, std::vector<ArgDef> inputs, std::vector<ArgDef> outputs,
            ShapeFunction shape) {
  return {.name = name,
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .types = {{"T", kFloatTypes}},
          .attrs = {{"epsilon", epsilon}},
          .shape = std::move(shape),
          .gradient = NoGradient(kByThePass)};
}

template <class Make>
void Add(OpRegistry& registry, OpDef op, std::vector<std::pair<int, int>> in_place, const Make& make) {
  op.in_place = std::move(in_place);
  op.kernels = Kernels<float, double, Half, BFloat16>("CPU", make);
  registry.Add(std::move(op));
}

}  // namespace

void RegisterResidualNorms(OpRegistry& registry) {
  Add(registry, DefOf("AddLayerNorm", 1e-5, {{"x"}, {"addend"}, {"scale"}, {"offset"}}, {{"sum"}, {"y"}}, NormShape),
      {{0, 0}, {1, 0}}, [](auto tag) -> KernelFactory {
        using T = typename decltype(tag)::type;
        return [](const KernelSpec& spec) { return AddThenNorm<T>(spec, &MakeLayerNorm<T>); };
      });
  Add(registry,
      DefOf("LayerNormAddGrad", 1e-5, {{"x"}, {"scale"}, {"dy"}, {"addend"}}, {{"dx"}, {"dscale"}, {"doffset"}},
            GradShape),
      {{0, 0}, {2, 0}, {3, 0}}, [](auto tag) -> KernelFactory {
        using T = typename decltype(tag)::type;
        return [](const KernelSpec& spec) { return GradThenAdd<T>(spec, &MakeLayerNormGrad<T>); };
      });
  Add(registry, DefOf("AddRmsNorm", 1e-6, {{"x"}, {"addend"}, {"scale"}}, {{"sum"}, {"y"}}, NormShape),
      {{0, 0}, {1, 0}}, [](auto tag) -> KernelFactory {
        using T = typename decltype(tag)::type;
        return [](const KernelSpec& spec) { return AddThenNorm<T>(spec, &MakeRmsNorm<T>); };
      });
  Add(registry,
      DefOf("RmsNormAddGrad", 1e-6, {{"x"}, {"scale"}, {"dy"}, {"addend"}}, {{"dx"}, {"dscale"}}, GradShapeOfTwo),
      {{0, 0}, {2, 0}, {3, 0}}, [](auto tag) -> KernelFactory {
        using T = typename decltype(tag)::type;
        return [](const KernelSpec& spec) { return GradThenAdd<T>(spec, &MakeRmsNormGrad<T>); };
      });
}

}  // namespace belfry::ops
