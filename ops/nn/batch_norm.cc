#include "ops/onednn/batch_norm.h"

#include <cmath>

#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/nn/moments_impl.h"
#include "ops/nn/nn_ops.h"
#include "ops/nn/primitive_kernel_impl.h"

namespace belfry::ops {
namespace {

onednn::BatchNormShape OneDnnShape(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  const bool images = x.rank() == 4;
  return {.n = x[0],
          .h = images ? x[1] : 1,
          .w = images ? x[2] : 1,
          .c = x[-1],
          .epsilon = static_cast<float>(spec.attrs.Float("epsilon")),
          .dtype = spec.inputs[0].dtype};
}

// y = scale (x - mean) / sqrt(variance + epsilon) + offset.
template <class T, class C>
void Normalize(int64_t rows, int64_t channels, double epsilon, const T* x, const C* scale, const C* offset,
               const C* mean, const C* variance, T* y) {
  ParallelFor(rows, 4.0 * static_cast<double>(channels), [=](int64_t begin, int64_t end) {
    alignas(64) C factor[kBlock];
    for (int64_t c = 0; c < channels; c += kBlock) {
      const int64_t size = std::min(kBlock, channels - c);
      for (int64_t i = 0; i < size; ++i)
        factor[i] = scale[c + i] / std::sqrt(variance[c + i] + static_cast<C>(epsilon));
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x + row * channels + c;
        T* to = y + row * channels + c;
        for (int64_t i = 0; i < size; ++i) {
          to[i] = static_cast<T>((static_cast<C>(from[i]) - mean[c + i]) * factor[i] + offset[c + i]);
        }
      }
    }
  });
}

// Inputs x, scale, offset; outputs y, mean, variance.
template <class T>
absl::StatusOr<Kernel> MakeTraining(const KernelSpec& spec) {
  using C = Compute<T>;
  if (OneDnnComputes(kDTypeOf<T>) && HasElements(spec)) {
    ASSIGN_OR_RETURN(std::optional<Kernel> kernel,
                     PrimitiveKernel(onednn::BatchNormTraining(OneDnnShape(spec)), {0, 1, 2}, {0, 1, 2}));
    if (kernel.has_value()) return *std::move(kernel);
  }
  const int64_t rows = RowsOf(spec.inputs[0].shape), channels = spec.inputs[0].shape[-1];
  const ColumnSums<C> sums(rows, channels);
  return Kernel{[rows, channels, sums, epsilon = spec.attrs.Float("epsilon")](const KernelContext& context) {
                  const T* x = context.input<T>(0);
                  C *mean = context.output<C>(1), *variance = context.output<C>(2);
                  ColumnMoments(sums, context.workspace, rows, channels, x, mean, variance);
                  Normalize(rows, channels, epsilon, x, context.input<C>(1), context.input<C>(2), mean, variance,
                            context.output<T>(0));
                  return absl::OkStatus();
                },
                sums.workspace_bytes()};
}

// Inputs x, scale, offset, mean, variance; output y.
template <class T>
absl::StatusOr<Kernel> MakeInference(const KernelSpec& spec) {
  using C = Compute<T>;
  if (OneDnnComputes(kDTypeOf<T>) && HasElements(spec)) {
    ASSIGN_OR_RETURN(std::optional<Kernel> kernel,
                     PrimitiveKernel(onednn::BatchNormInference(OneDnnShape(spec)), {0, 1, 2, 3, 4}, {0}));
    if (kernel.has_value()) return *std::move(kernel);
  }
  const int64_t rows = RowsOf(spec.inputs[0].shape), channels = spec.inputs[0].shape[-1];
  return Kernel{[rows, channels, epsilon = spec.attrs.Float("epsilon")](const KernelContext& context) {
    Normalize(rows, channels, epsilon, context.input<T>(0), context.input<C>(1), context.input<C>(2),
              context.input<C>(3), context.input<C>(4), context.output<T>(0));
    return absl::OkStatus();
  }};
}

// Inputs x, dy, scale, mean, variance; outputs dx, dscale, doffset.
template <class T>
absl::StatusOr<Kernel> MakeGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const bool fixed = spec.attrs.Bool("fixed_statistics");
  if (OneDnnComputes(kDTypeOf<T>) && HasElements(spec)) {
    ASSIGN_OR_RETURN(std::optional<Kernel> kernel,
                     PrimitiveKernel(onednn::BatchNormBackward(OneDnnShape(spec), fixed), {0, 1, 2, 3, 4}, {0, 1, 2}));
    if (kernel.has_value()) return *std::move(kernel);
  }
  const int64_t rows = RowsOf(spec.inputs[0].shape), channels = spec.inputs[0].shape[-1];
  const ColumnSums<C> sums(rows, channels, 2);
  return Kernel{[rows, channels, sums, fixed,
                 epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](const KernelContext& context) {
                  const T *x = context.input<T>(0), *dy = context.input<T>(1);
                  const C *scale = context.input<C>(2), *mean = context.input<C>(3), *variance = context.input<C>(4);
                  T* dx = context.output<T>(0);
                  C *dscale = context.output<C>(1), *doffset = context.output<C>(2);
                  const C* total = sums.Run(context.workspace, [=](int64_t row, C* to) {
                    for (int64_t c = 0; c < channels; ++c) {
                      const C slope = static_cast<C>(dy[row * channels + c]);
                      to[c] += slope;
                      to[channels + c] += slope * (static_cast<C>(x[row * channels + c]) - mean[c]);
                    }
                  });
                  for (int64_t c = 0; c < channels; ++c) {
                    doffset[c] = total[c];
                    dscale[c] = total[channels + c] / std::sqrt(variance[c] + epsilon);
                  }
                  const C share = fixed || rows == 0 ? C(0) : 1 / static_cast<C>(rows);
                  ParallelFor(rows, 8.0 * static_cast<double>(channels), [=](int64_t begin, int64_t end) {
                    for (int64_t row = begin; row < end; ++row) {
                      for (int64_t c = 0; c < channels; ++c) {
                        const int64_t at = row * channels + c;
                        const C inverse = 1 / std::sqrt(variance[c] + epsilon);
                        const C normal = (static_cast<C>(x[at]) - mean[c]) * inverse;
                        dx[at] = static_cast<T>(scale[c] * inverse *
                                                (static_cast<C>(dy[at]) - share * (doffset[c] + normal * dscale[c])));
                      }
                    }
                  });
                  return absl::OkStatus();
                },
                sums.workspace_bytes()};
}

// Checks x and its vectors over the channels, inputs `first` to the end; returns x with what they know of the channels.
absl::StatusOr<Shape> CheckShapes(const ShapeArgs& args, size_t first) {
  Shape x = args.inputs[0];
  if (x.rank() != 4 && x.rank() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("x must be [N, H, W, C] or [N, C], not ", x.ToString()));
  }
  const DType wide = WideDType(args.dtypes[0]);
  for (size_t i = first; i < args.inputs.size(); ++i) {
    if (args.dtypes[i] != wide) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " must be ", DTypeName(wide), " for ",
                                                     DTypeName(args.dtypes[0]), " x, and is ",
                                                     DTypeName(args.dtypes[i])));
    }
    if (!Shape({x[-1]}).CompatibleWith(args.inputs[i])) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " must have shape [", x[-1],
                                                     "], one element for each ", "channel, and has ",
                                                     args.inputs[i].ToString()));
    }
    if (x[-1] == Shape::kUnknown) x.set_dim(-1, args.inputs[i][0]);
  }
  return x;
}

absl::StatusOr<std::vector<Shape>> TrainingShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape x, CheckShapes(args, 1));
  return std::vector<Shape>{x, Shape({x[-1]}), Shape({x[-1]})};
}
absl::StatusOr<std::vector<Shape>> InferenceShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape x, CheckShapes(args, 1));
  return std::vector<Shape>{x};
}
absl::StatusOr<std::vector<Shape>> GradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(Shape x, CheckShapes(args, 2));
  ASSIGN_OR_RETURN(x, x.Merge(args.inputs[1]));
  return std::vector<Shape>{x, Shape({x[-1]}), Shape({x[-1]})};
}

// Of both forms; mean and variance are outputs of the one and inputs of the other.
std::vector<Output> BatchNormGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const bool fixed = node.inputs().size() == 5;
  std::vector<Output> gradients(node.inputs().size());
  if (!fixed && (dy[1].valid() || dy[2].valid())) {
    return NoGradient(
        "no gradient flows through the batch's mean and variance; use StopGradient, or compute them apart")(scope, node,
                                                                                                            dy);
  }
  const std::vector<Output> all =
      scope.AddAll("BatchNormGrad",
                   {node.input(0), dy[0], node.input(1), fixed ? node.input(3) : node.output(1),
                    fixed ? node.input(4) : node.output(2)},
                   {{"epsilon", node.attrs().Float("epsilon")}, {"fixed_statistics", fixed}});
  std::copy(all.begin(), all.end(), gradients.begin());
  if (fixed && !all.empty()) {
    const Output scale = node.input(1), dscale = all[1], doffset = all[2];
    const Output epsilon = Fill(scope, {}, node.attrs().Float("epsilon"), scale.dtype());
    const Output wide = Add(scope, node.input(4), epsilon);
    gradients[3] = Neg(scope, Mul(scope, Mul(scope, doffset, scale), Rsqrt(scope, wide)));
    gradients[4] = Scale(scope, Div(scope, Mul(scope, dscale, scale), wide), -0.5);
  }
  return gradients;
}

}  // namespace

BatchNormOutputs BatchNorm(OpScope scope, Output x, Output scale, Output offset, double epsilon) {
  const std::vector<Output> outputs = scope.AddAll("BatchNorm", {x, scale, offset}, {{"epsilon", epsilon}});
  if (outputs.empty()) return {};
  return {outputs[0], outputs[1], outputs[2]};
}

Output BatchNormInference(OpScope scope, Output x, Output scale, Output offset, Output mean, Output variance,
                          double epsilon) {
  return scope.Add("BatchNormInference", {x, scale, offset, mean, variance}, {{"epsilon", epsilon}});
}

void RegisterBatchNorm(OpRegistry& registry) {
  const std::vector<TypeVar> types = {{"T", kFloatTypes}, {"U", kWideFloatTypes}};
  registry.Add({.name = "BatchNorm",
                .inputs = {{"x"}, Wide("scale"), Wide("offset")},
                .outputs = {{"y"}, Wide("mean"), Wide("variance")},
                .types = types,
                .attrs = {{"epsilon", 1e-3}},
                .shape = TrainingShape,
                .gradient = BatchNormGradient,
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeTraining<typename decltype(tag)::type>; })});
  registry.Add({.name = "BatchNormInference",
                .inputs = {{"x"}, Wide("scale"), Wide("offset"), Wide("mean"), Wide("variance")},
                .outputs = {{"y"}},
                .types = types,
                .attrs = {{"epsilon", 1e-3}},
                .shape = InferenceShape,
                .gradient = BatchNormGradient,
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeInference<typename decltype(tag)::type>; })});
  registry.Add({.name = "BatchNormGrad",
                .inputs = {{"x"}, {"dy"}, Wide("scale"), Wide("mean"), Wide("variance")},
                .outputs = {{"dx"}, Wide("dscale"), Wide("doffset")},
                .types = types,
                .attrs = {{"epsilon", 1e-3}, {"fixed_statistics", false}},
                .shape = GradShape,
                .gradient = NoSecondDerivative(),
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
