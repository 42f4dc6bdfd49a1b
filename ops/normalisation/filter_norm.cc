#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/common/op_rules_impl.h"
#include "ops/normalisation/channels_impl.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {
namespace {

// The statistics of a batch norm that the weights before it take in: with factor = scale / sqrt(variance + epsilon),
//
//   (x * filter - mean) factor + offset = x * (filter factor) + (offset - mean factor)
template <class T>
T Factor(T scale, T variance, T epsilon) {
  return scale / std::sqrt(variance + epsilon);
}

// Inputs filter [..., K], scale, variance.
template <class T>
absl::StatusOr<Kernel> MakeFilter(const KernelSpec& spec) {
  const ChannelRows rows(spec.inputs[0].shape);
  using Numbers = LaneNumbers<T, 1>;
  return Kernel{
      [rows, epsilon = static_cast<T>(spec.attrs.Float("epsilon"))](const KernelContext& context) {
        T* const factor = Numbers(rows, context.workspace).of[0];
        for (int64_t c = 0; c < rows.channels(); ++c) {
          factor[c] = Factor(context.input<T>(1)[c], context.input<T>(2)[c], epsilon);
        }
        rows.Repeat(factor);
        MapByChannel(
            rows, 1, context.output<T>(0),
            [=](int64_t lane) { return [of = simd::Vector<T>::Load(factor + lane)](auto x) { return x * of; }; },
            context.input<T>(0));
        return absl::OkStatus();
      },
      Numbers::Bytes(rows)};
}

// Inputs scale, offset, mean, variance.
template <class T>
absl::StatusOr<Kernel> MakeBias(const KernelSpec& spec) {
  return Kernel{[channels = spec.outputs[0].shape.elements(),
                 epsilon = static_cast<T>(spec.attrs.Float("epsilon"))](const KernelContext& context) {
    const T *const scale = context.input<T>(0), *const offset = context.input<T>(1);
    const T *const mean = context.input<T>(2), *const variance = context.input<T>(3);
    for (int64_t c = 0; c < channels; ++c) {
      context.output<T>(0)[c] = offset[c] - mean[c] * Factor(scale[c], variance[c], epsilon);
    }
    return absl::OkStatus();
  }};
}

// All inputs from `first` on have one number for each channel.
absl::Status CheckChannels(const ShapeArgs& args, size_t first, int64_t channels) {
  for (const Shape& input : args.inputs.subspan(first)) RETURN_IF_ERROR(input.Merge(Shape({channels})).status());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Shape>> FilterNormShape(const ShapeArgs& args) {
  if (args.inputs[0].rank() < 1) return absl::InvalidArgumentError("needs a filter with channels");
  RETURN_IF_ERROR(CheckChannels(args, 1, args.inputs[0][-1]));
  return std::vector<Shape>{args.inputs[0]};
}

absl::StatusOr<std::vector<Shape>> BiasNormShape(const ShapeArgs& args) {
  if (args.inputs[0].rank() != 1) return absl::InvalidArgumentError("needs a number for each channel");
  RETURN_IF_ERROR(CheckChannels(args, 1, args.inputs[0][0]));
  return std::vector<Shape>{args.inputs[0]};
}

}  // namespace

void RegisterFilterNorm(OpRegistry& registry) {
  OpDef op = {
      .name = "BatchNormFilter",
      .inputs = {{"filter"}, {"scale"}, {"variance"}},
      .outputs = {{"y"}},
      .types = {{"T", kWideFloatTypes}},
      .attrs = {{"epsilon", 1e-3}},
      .shape = FilterNormShape,
      .gradient = NoGradient(kByThePass),
      .kernels = Kernels<float, double>("CPU", [](auto tag) { return &MakeFilter<typename decltype(tag)::type>; })};
  registry.Add(op);
  op.name = "BatchNormBias";
  op.inputs = {{"scale"}, {"offset"}, {"mean"}, {"variance"}};
  op.shape = BiasNormShape;
  op.kernels = Kernels<float, double>("CPU", [](auto tag) { return &MakeBias<typename decltype(tag)::type>; });
  registry.Add(op);
}

}  // namespace belfry::ops
