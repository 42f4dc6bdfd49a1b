#include "ops/array.h"
#include "ops/common/op_rules_impl.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/normalisation/normalisation_ops.h"
#include "ops/normalisation/row_norm_impl.h"
#include "ops/reduction/column_sums.h"

namespace belfry::ops {

template <class T>
absl::StatusOr<Kernel> MakeLayerNorm(const KernelSpec& spec) {
  return Kernel{[r = NormRows(spec)](const KernelContext& context) {
    const T *x = context.input<T>(0), *scale = context.input<T>(1), *offset = context.input<T>(2);
    T* y = context.output<T>(0);
    ParallelFor(r.rows, 8.0 * static_cast<double>(r.n), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        NormalizeRow</*centred=*/true>(r, x + row * r.n, scale, offset, y + row * r.n);
      }
    });
    return absl::OkStatus();
  }};
}

// Inputs x, scale, dy; outputs dx, dscale, doffset.
template <class T>
absl::StatusOr<Kernel> MakeLayerNormGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const NormRows r(spec);
  const ColumnSums<C> sums(r.rows, r.n, 2);
  return Kernel{[r, sums](const KernelContext& context) {
                  const T *x = context.input<T>(0), *scale = context.input<T>(1), *dy = context.input<T>(2);
                  T* dx = context.output<T>(0);
                  const C* total = sums.RunRanges(context.workspace, [=](int64_t begin, int64_t end, C* to) {
                    NormGradientOfRows</*centred=*/true>(r, begin, end, x, scale, dy, dx, to, to + r.n);
                  });
                  Store(total, r.n, context.output<T>(1));
                  Store(total + r.n, r.n, context.output<T>(2));
                  return absl::OkStatus();
                },
                sums.workspace_bytes()};
}

template absl::StatusOr<Kernel> MakeLayerNorm<float>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeLayerNorm<double>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeLayerNorm<Half>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeLayerNorm<BFloat16>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeLayerNormGrad<float>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeLayerNormGrad<double>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeLayerNormGrad<Half>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeLayerNormGrad<BFloat16>(const KernelSpec& spec);

namespace {

absl::StatusOr<std::vector<Shape>> LayerNormShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckEpsilon(args.attrs));
  ASSIGN_OR_RETURN(const Shape both, args.inputs[1].Merge(args.inputs[2]));
  ASSIGN_OR_RETURN(const Shape y, TrailingNormShape(args.inputs[0], both, "scale and offset"));
  return std::vector<Shape>{y};
}

absl::StatusOr<std::vector<Shape>> LayerNormGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape x, args.inputs[0].Merge(args.inputs[2]));
  return std::vector<Shape>{x, args.inputs[1], args.inputs[1]};
}

std::vector<Output> LayerNormGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<Output> gradients = scope.AddAll("LayerNormGrad", {node.input(0), node.input(1), dy[0]},
                                               {{"epsilon", node.attrs().Float("epsilon")}});
  gradients.resize(3);
  return gradients;
}

Differentiable LayerNormForward(const Scope& scope, const Node& node, absl::Span<const Output> inputs) {
  const Output x = inputs[0], scale = inputs[1], offset = ZerosLike(scope, scale);
  const Output z = Normalized(scope, x, TrailingAxes(scale), node.attrs().Float("epsilon"));
  return {{Add(scope, Mul(scope, z, scale), offset)}, {x, scale, offset}, {inputs[2]}};
}

}  // namespace

Axes TrailingAxes(const Output& scale) {
  std::vector<int64_t> axes;
  for (int axis = -scale.shape().rank(); axis < 0; ++axis) axes.push_back(axis);
  return axes;
}

Output Normalized(const Scope& scope, Output x, const Axes& axes, double epsilon, bool centred) {
  if (centred) x = Sub(scope, x, Mean(scope, x, axes, /*keep_dims=*/true));
  const Output variance = Mean(scope, Square(scope, x), axes, /*keep_dims=*/true);
  return Mul(scope, x, Rsqrt(scope, Add(scope, variance, epsilon)));
}

absl::StatusOr<Shape> TrailingNormShape(const Shape& x, const Shape& scale, absl::string_view names) {
  bool fits = scale.rank() >= 1 && scale.rank() <= x.rank();
  Shape y = x;
  for (int i = 1; fits && i <= scale.rank(); ++i) {
    const int64_t extent = scale[-i];
    if (y[-i] == Shape::kUnknown) y.set_dim(-i, extent);
    fits = extent == Shape::kUnknown || y[-i] == extent;
  }
  if (fits) return y;
  return absl::InvalidArgumentError(
      absl::StrCat(names, " must have the shape of the last axes of x ", x.ToString(), ", not ", scale.ToString()));
}

Output LayerNorm(OpScope scope, Output x, Output scale, Output offset, double epsilon) {
  return scope.Add("LayerNorm", {x, scale, offset}, {{"epsilon", epsilon}});
}

void RegisterLayerNorm(OpRegistry& registry) {
  registry.Add({.name = "LayerNorm",
                .inputs = {{"x"}, {"scale"}, {"offset"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"epsilon", 1e-5}},
                .shape = LayerNormShape,
                .gradient = LayerNormGradient,
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeLayerNorm<typename decltype(tag)::type>; })});
}

void RegisterLayerNormGradients(OpRegistry& registry) {
  registry.Add({.name = "LayerNormGrad",
                .inputs = {{"x"}, {"scale"}, {"dy"}},
                .outputs = {{"dx"}, {"dscale"}, {"doffset"}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"epsilon", 1e-5}},
                .shape = LayerNormGradShape,
                .gradient = GradientOfGradient(LayerNormForward),
                .in_place = {{0, 0}, {2, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeLayerNormGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
