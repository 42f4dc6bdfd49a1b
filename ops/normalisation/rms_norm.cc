#include "ops/common/op_rules_impl.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/normalisation/normalisation_ops.h"
#include "ops/normalisation/row_norm_impl.h"
#include "ops/reduction/column_sums.h"

namespace belfry::ops {

template <class T>
absl::StatusOr<Kernel> MakeRmsNorm(const KernelSpec& spec) {
  return Kernel{[r = NormRows(spec)](const KernelContext& context) {
    const T *x = context.input<T>(0), *scale = context.input<T>(1);
    T* y = context.output<T>(0);
    ParallelFor(r.rows, 6.0 * static_cast<double>(r.n), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        NormalizeRow</*centred=*/false, T>(r, x + row * r.n, scale, nullptr, y + row * r.n);
      }
    });
    return absl::OkStatus();
  }};
}

// Inputs x, scale, dy; outputs dx, dscale.
template <class T>
absl::StatusOr<Kernel> MakeRmsNormGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const NormRows r(spec);
  const ColumnSums<C> sums(r.rows, r.n);
  return Kernel{[r, sums](const KernelContext& context) {
                  const T *x = context.input<T>(0), *scale = context.input<T>(1), *dy = context.input<T>(2);
                  T* dx = context.output<T>(0);
                  const C* total = sums.RunRanges(context.workspace, [=](int64_t begin, int64_t end, C* to) {
                    NormGradientOfRows</*centred=*/false>(r, begin, end, x, scale, dy, dx, to,
                                                          static_cast<C*>(nullptr));
                  });
                  Store(total, r.n, context.output<T>(1));
                  return absl::OkStatus();
                },
                sums.workspace_bytes()};
}

template absl::StatusOr<Kernel> MakeRmsNorm<float>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeRmsNorm<double>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeRmsNorm<Half>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeRmsNorm<BFloat16>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeRmsNormGrad<float>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeRmsNormGrad<double>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeRmsNormGrad<Half>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeRmsNormGrad<BFloat16>(const KernelSpec& spec);

namespace {

absl::StatusOr<std::vector<Shape>> RmsNormShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckEpsilon(args.attrs));
  ASSIGN_OR_RETURN(const Shape y, TrailingNormShape(args.inputs[0], args.inputs[1], "scale"));
  return std::vector<Shape>{y};
}

absl::StatusOr<std::vector<Shape>> RmsNormGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape x, args.inputs[0].Merge(args.inputs[2]));
  return std::vector<Shape>{x, args.inputs[1]};
}

std::vector<Output> RmsNormGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<Output> gradients =
      scope.AddAll("RmsNormGrad", {node.input(0), node.input(1), dy[0]}, {{"epsilon", node.attrs().Float("epsilon")}});
  gradients.resize(2);
  return gradients;
}

Differentiable RmsNormForward(const Scope& scope, const Node& node, absl::Span<const Output> inputs) {
  const Output x = inputs[0], scale = inputs[1];
  const Output z = Normalized(scope, x, TrailingAxes(scale), node.attrs().Float("epsilon"), /*centred=*/false);
  return {{Mul(scope, z, scale)}, {x, scale}, {inputs[2]}};
}

}  // namespace

Output RmsNorm(OpScope scope, Output x, Output scale, double epsilon) {
  return scope.Add("RmsNorm", {x, scale}, {{"epsilon", epsilon}});
}

void RegisterRmsNorm(OpRegistry& registry) {
  registry.Add({.name = "RmsNorm",
                .inputs = {{"x"}, {"scale"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"epsilon", 1e-6}},
                .shape = RmsNormShape,
                .gradient = RmsNormGradient,
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeRmsNorm<typename decltype(tag)::type>; })});
}

void RegisterRmsNormGradients(OpRegistry& registry) {
  registry.Add({.name = "RmsNormGrad",
                .inputs = {{"x"}, {"scale"}, {"dy"}},
                .outputs = {{"dx"}, {"dscale"}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"epsilon", 1e-6}},
                .shape = RmsNormGradShape,
                .gradient = GradientOfGradient(RmsNormForward),
                .in_place = {{0, 0}, {2, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeRmsNormGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
