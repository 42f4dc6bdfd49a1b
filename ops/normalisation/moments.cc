#include "ops/normalisation/moments_impl.h"

#include "ops/math.h"
#include "ops/nn.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeMoments(const KernelSpec& spec) {
  using C = Compute<T>;
  const ChannelMomentsKernel<C> moments((ChannelRows(spec.inputs[0].shape)));
  return Kernel{[moments](const KernelContext& context) {
                  moments.Run(context.workspace, context.input<T>(0), context.output<C>(0), context.output<C>(1));
                  return absl::OkStatus();
                },
                moments.workspace_bytes()};
}

// Inputs x, mean, dmean, dvariance: dx = (dmean + 2 dvariance (x - mean)) / rows.
template <class T>
absl::StatusOr<Kernel> MakeGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const ChannelRows rows(spec.inputs[0].shape);
  return Kernel{[rows](const KernelContext& context) {
                  const C *mean = context.input<C>(1), *dmean = context.input<C>(2), *dvariance = context.input<C>(3);
                  const LaneNumbers<C, 3> lanes(rows, context.workspace);
                  C *const center = lanes.of[0], *const constant = lanes.of[1], *const slope = lanes.of[2];
                  const C share = 1 / static_cast<C>(std::max<int64_t>(rows.rows(), 1));
                  for (int64_t c = 0; c < rows.channels(); ++c) {
                    center[c] = mean[c];
                    constant[c] = share * dmean[c];
                    slope[c] = 2 * share * dvariance[c];
                  }
                  for (C* numbers : lanes.of) rows.Repeat(numbers);
                  using V = simd::Vector<C>;
                  MapByChannel(
                      rows, 4, context.output<T>(0),
                      [=](int64_t lane) {
                        return [center = V::Load(center + lane), constant = V::Load(constant + lane),
                                slope = V::Load(slope + lane)](auto x) { return constant + slope * (x - center); };
                      },
                      context.input<T>(0));
                  return absl::OkStatus();
                },
                LaneNumbers<C, 3>::Bytes(rows)};
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

Differentiable MomentsForward(const Scope& scope, const Node& /*node*/, absl::Span<const Output> inputs) {
  const Output x = inputs[0];
  const Axes axes = AllButLast(x);
  const Output mean = Mean(scope, x, axes), variance = Mean(scope, SquaredDifference(scope, x, mean), axes);
  return {{mean, variance}, {x}, {inputs[2], inputs[3]}};
}

}  // namespace

Axes AllButLast(const Output& x) {
  std::vector<int64_t> axes;
  for (int axis = 0; axis < x.shape().rank() - 1; ++axis) axes.push_back(axis);
  return axes;
}

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
                .gradient = GradientOfGradient(MomentsForward),
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
