#include "ops/nn/moments_impl.h"

#include "ops/nn.h"
#include "ops/nn/nn_ops.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeMoments(const KernelSpec& spec) {
  using C = Compute<T>;
  const int64_t rows = RowsOf(spec.inputs[0].shape), channels = spec.inputs[0].shape[-1];
  const ColumnSums<C> sums(rows, channels);
  return Kernel{[rows, channels, sums](const KernelContext& context) {
                  ColumnMoments(sums, context.workspace, rows, channels, context.input<T>(0), context.output<C>(0),
                                context.output<C>(1));
                  return absl::OkStatus();
                },
                sums.workspace_bytes()};
}

// Inputs x, mean, dmean, dvariance: dx = (dmean + 2 dvariance (x - mean)) / rows.
template <class T>
absl::StatusOr<Kernel> MakeGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const int64_t rows = RowsOf(spec.inputs[0].shape), channels = spec.inputs[0].shape[-1];
  return Kernel{[rows, channels](const KernelContext& context) {
    const T* x = context.input<T>(0);
    const C *mean = context.input<C>(1), *dmean = context.input<C>(2), *dvariance = context.input<C>(3);
    T* dx = context.output<T>(0);
    const C share = rows == 0 ? C(0) : 1 / static_cast<C>(rows);
    ParallelFor(rows, 4.0 * static_cast<double>(channels), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t at = row * channels + c;
          dx[at] = static_cast<T>(share * (dmean[c] + 2 * dvariance[c] * (static_cast<C>(x[at]) - mean[c])));
        }
      }
    });
    return absl::OkStatus();
  }};
}

absl::StatusOr<std::vector<Shape>> MomentsShape(const ShapeArgs& args) {
  if (args.inputs[0].rank() == 0) return absl::InvalidArgumentError("x is a scalar; it needs an axis of channels");
  const Shape channels({args.inputs[0][-1]});
  return std::vector<Shape>{channels, channels};
}

std::vector<Output> MomentsGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const auto slope = [&](int i) { return dy[i].valid() ? dy[i] : scope.Add("ZerosLike", {node.output(i)}); };
  return {scope.Add("ChannelMomentsGrad", {node.input(0), node.output(0), slope(0), slope(1)})};
}

}  // namespace

ChannelMomentsOutputs ChannelMoments(OpScope scope, Output x) {
  const std::vector<Output> outputs = scope.AddAll("ChannelMoments", {x}, {{"U", WideDType(x.dtype())}});
  if (outputs.empty()) return {};
  return {outputs[0], outputs[1]};
}

void RegisterMoments(OpRegistry& registry) {
  const std::vector<TypeVar> types = {{"T", kFloatTypes}, {"U", kWideFloatTypes}};
  registry.Add({.name = "ChannelMoments",
                .inputs = {{"x"}},
                .outputs = {Wide("mean"), Wide("variance")},
                .types = types,
                .shape = MomentsShape,
                .gradient = MomentsGradient,
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeMoments<typename decltype(tag)::type>; })});
  registry.Add({.name = "ChannelMomentsGrad",
                .inputs = {{"x"}, Wide("mean"), Wide("dmean"), Wide("dvariance")},
                .outputs = {{"dx"}},
                .types = types,
                .shape = SameAsFirst,
                .gradient = NoSecondDerivative(),
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
