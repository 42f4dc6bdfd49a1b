#include "ops/array.h"
#include "ops/common/op_rules_impl.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/normalisation/group_norm_impl.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {
namespace {

// Workspace: `vectors` vectors of the channels, in the type they are computed in, for every example and once for all.
template <class T>
size_t GroupNormSpace(const NormGroups& g, int64_t vectors) {
  return static_cast<size_t>((g.examples * vectors + 2) * g.channels) * sizeof(Compute<T>);
}

template <class T>
absl::StatusOr<Kernel> MakeGroupNorm(const KernelSpec& spec) {
  using C = Compute<T>;
  const NormGroups g(spec);
  return Kernel{[g](const KernelContext& context) {
                  const T* x = context.input<T>(0);
                  T* y = context.output<T>(0);
                  C *scale = static_cast<C*>(context.workspace), *offset = scale + g.channels;
                  C* space = offset + g.channels;
                  Load(context.input<T>(1), g.channels, scale);
                  Load(context.input<T>(2), g.channels, offset);
                  ParallelFor(g.examples, 8.0 * static_cast<double>(g.elements()), [=](int64_t begin, int64_t end) {
                    for (int64_t n = begin; n < end; ++n) {
                      NormalizeGroups(g, x + n * g.elements(), scale, offset, space + n * 3 * g.channels,
                                      y + n * g.elements());
                    }
                  });
                  return absl::OkStatus();
                },
                GroupNormSpace<T>(g, 3)};
}

// Inputs x, scale, dy; outputs dx, dscale, doffset. The examples' sums are added in ascending order.
template <class T>
absl::StatusOr<Kernel> MakeGroupNormGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const NormGroups g(spec);
  return Kernel{[g](const KernelContext& context) {
                  const T *x = context.input<T>(0), *dy = context.input<T>(2);
                  T* dx = context.output<T>(0);
                  const int64_t k = g.channels;
                  C* scale = static_cast<C*>(context.workspace);
                  C* space = scale + 2 * k;
                  Load(context.input<T>(1), k, scale);
                  ParallelFor(g.examples, 16.0 * static_cast<double>(g.elements()), [=](int64_t begin, int64_t end) {
                    for (int64_t n = begin; n < end; ++n) {
                      C* own = space + n * 7 * k;
                      GroupGradients(g, x + n * g.elements(), scale, dy + n * g.elements(), own + 2 * k,
                                     dx + n * g.elements(), own, own + k);
                    }
                  });
                  std::fill_n(scale, 2 * k, C(0));  // from here on the sums of both gradients
                  for (int64_t n = 0; n < g.examples; ++n) {
                    for (int64_t c = 0; c < 2 * k; ++c) scale[c] += space[n * 7 * k + c];
                  }
                  Store(scale, k, context.output<T>(1));
                  Store(scale + k, k, context.output<T>(2));
                  return absl::OkStatus();
                },
                GroupNormSpace<T>(g, 7)};
}

absl::StatusOr<std::vector<Shape>> GroupNormShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckEpsilon(args.attrs));
  const Shape& x = args.inputs[0];
  if (x.rank() < 2) return absl::InvalidArgumentError(absl::StrCat("x must be [N, .., C], not ", x.ToString()));
  absl::StatusOr<Shape> channels = Shape({x[-1]}).Merge(args.inputs[1]);
  if (channels.ok()) channels = channels->Merge(args.inputs[2]);
  if (!channels.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("scale and offset must have the shape [", x[-1], "] of the channels",
                                                   ", but have ", args.inputs[1].ToString(), " and ",
                                                   args.inputs[2].ToString()));
  }
  const int64_t groups = args.attrs.Int("groups"), c = (*channels)[0];
  if (groups < 1 || (c != Shape::kUnknown && c % groups != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot split ", c, " channels into ", groups, " groups"));
  }
  Shape y = x;
  y.set_dim(-1, c);
  return std::vector<Shape>{y};
}

absl::StatusOr<std::vector<Shape>> GroupNormGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape x, args.inputs[0].Merge(args.inputs[2]));
  return std::vector<Shape>{x, args.inputs[1], args.inputs[1]};
}

std::vector<Output> GroupNormGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<Output> gradients =
      scope.AddAll("GroupNormGrad", {node.input(0), node.input(1), dy[0]},
                   {{"groups", node.attrs().Int("groups")}, {"epsilon", node.attrs().Float("epsilon")}});
  gradients.resize(3);
  return gradients;
}

Differentiable GroupNormForward(const Scope& scope, const Node& node, absl::Span<const Output> inputs) {
  const Output x = inputs[0], scale = inputs[1], offset = ZerosLike(scope, scale);
  const int64_t groups = node.attrs().Int("groups");
  const Output grouped = Reshape(scope, x, {Extent::Of(x, 0), -1, groups, Extent::Of(x, -1) / groups});
  const Output z = ReshapeLike(scope, Normalized(scope, grouped, {1, 3}, node.attrs().Float("epsilon")), x);
  return {{Add(scope, Mul(scope, z, scale), offset)}, {x, scale, offset}, {inputs[2]}};
}

std::vector<AttrDef> GroupNormAttrs() { return {{"groups", int64_t{1}, true}, {"epsilon", 1e-5}}; }

}  // namespace

Output GroupNorm(OpScope scope, Output x, Output scale, Output offset, int64_t groups, double epsilon) {
  return scope.Add("GroupNorm", {x, scale, offset}, {{"groups", groups}, {"epsilon", epsilon}});
}

void RegisterGroupNorm(OpRegistry& registry) {
  registry.Add({.name = "GroupNorm",
                .inputs = {{"x"}, {"scale"}, {"offset"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = GroupNormAttrs(),
                .shape = GroupNormShape,
                .gradient = GroupNormGradient,
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeGroupNorm<typename decltype(tag)::type>; })});
}

void RegisterGroupNormGradients(OpRegistry& registry) {
  registry.Add({.name = "GroupNormGrad",
                .inputs = {{"x"}, {"scale"}, {"dy"}},
                .outputs = {{"dx"}, {"dscale"}, {"doffset"}},
                .types = {{"T", kFloatTypes}},
                .attrs = GroupNormAttrs(),
                .shape = GroupNormGradShape,
                .gradient = GradientOfGradient(GroupNormForward),
                .in_place = {{0, 0}, {2, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeGroupNormGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
