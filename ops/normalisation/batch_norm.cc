#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "framework/base/status.h"
#include "ops/activation/activate.h"
#include "ops/activation/add_and_mask_impl.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/normalisation/channels_impl.h"
#include "ops/normalisation/moments_impl.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {
namespace {

// Operations fused after the normalisation, in the same pass over memory.
enum class Then { kNothing, kRelu, kAddRelu, kRelu6 };

// y = scale (x - mean) / sqrt(variance + epsilon) + offset, with the constants of each channel computed once and laid
// out by lanes. The gradient evaluates the same expression, so both passes get the same bits.
template <class C>
struct Normalization {
  const C *mean, *factor, *offset;

  using Numbers = LaneNumbers<C, 3>;
  Normalization(const ChannelTiles& tiles, const Numbers& numbers, C epsilon, const C* scale, const C* shift,
                const C* center, const C* variance)
      : mean(numbers.of[0]), factor(numbers.of[1]), offset(numbers.of[2]) {
    for (int64_t c = 0; c < tiles.channels(); ++c) {
      numbers.of[0][c] = center[c];
      numbers.of[1][c] = scale[c] / std::sqrt(variance[c] + epsilon);
      numbers.of[2][c] = shift[c];
    }
    for (C* lanes : numbers.of) tiles.Repeat(lanes);
  }
  C operator()(int64_t c, C x) const { return (x - mean[c]) * factor[c] + offset[c]; }
};

template <Then then, class T, class C>
void Normalize(const ChannelTiles& tiles, const Normalization<C>& normal, const T* x, const T* addend, T* y) {
  constexpr std::conditional_t<then == Then::kRelu6, functor::Relu6<C>, functor::Relu<C>> relu;
  if constexpr (then == Then::kAddRelu) {
    ForEachElementByChannel(
        tiles, 6, y, [=](int64_t c, C in, C more) { return relu(normal(c, in) + more); }, x, addend);
  } else if constexpr (then != Then::kNothing) {
    ForEachElementByChannel(
        tiles, 5, y, [=](int64_t c, C in) { return relu(normal(c, in)); }, x);
  } else {
    ForEachElementByChannel(tiles, 4, y, normal, x);
  }
}

// Inputs x, scale, offset and, if fused, an addend; outputs y, mean, variance.
//
// Two passes over x: one for the moments, one to normalise. The moments end up in outputs 1 and 2, so the second pass
// reuses the workspace of the first. An element is read before y is written there, and only after all moments are
// known, so y may be x.
template <Then then, class T>
absl::StatusOr<Kernel> MakeTraining(const KernelSpec& spec) {
  using C = Compute<T>;
  const ChannelTiles tiles(spec.inputs[0].shape);
  const ChannelMomentsKernel<C> moments(tiles);
  return Kernel{[tiles, moments, epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](const KernelContext& context) {
                  const T* x = context.input<T>(0);
                  C *mean = context.output<C>(1), *variance = context.output<C>(2);
                  moments.Run(context.workspace, x, mean, variance);
                  const Normalization<C> normal(tiles, {tiles, context.workspace}, epsilon, context.input<C>(1),
                                                context.input<C>(2), mean, variance);
                  Normalize<then>(tiles, normal, x, then == Then::kAddRelu ? context.input<T>(3) : nullptr,
                                  context.output<T>(0));
                  return absl::OkStatus();
                },
                std::max(moments.workspace_bytes(), Normalization<C>::Numbers::Bytes(tiles))};
}

// Inputs x, scale, offset, mean, variance; output y.
template <class T>
absl::StatusOr<Kernel> MakeInference(const KernelSpec& spec) {
  using C = Compute<T>;
  const ChannelTiles tiles(spec.inputs[0].shape);
  return Kernel{[tiles, epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](const KernelContext& context) {
                  const Normalization<C> normal(tiles, {tiles, context.workspace}, epsilon, context.input<C>(1),
                                                context.input<C>(2), context.input<C>(3), context.input<C>(4));
                  Normalize<Then::kNothing, T>(tiles, normal, context.input<T>(0), nullptr, context.output<T>(0));
                  return absl::OkStatus();
                },
                Normalization<C>::Numbers::Bytes(tiles)};
}

// Inputs x, dy, scale, [offset,] mean, variance; outputs dx, dscale, doffset. With the offset, dy is the gradient of a
// ReLU, or ReLU6, that follows the normalisation.
//
// Let z = (x - mean) / sqrt(variance + epsilon), y = scale z + offset, and let d be dy, or 0 where the ReLU is off.
// Summed over the rows of a channel,
//
//   doffset = sum d        dscale = sum d z
//   dx = factor (d - share (doffset + z dscale)),  factor = scale / sqrt(variance + epsilon)
//
// share = 1 / rows, because mean and variance depend on every row of x: d mean / dx = 1 / rows and d variance / dx = 2
// (x - mean) / rows. If the statistics are fixed, both derivatives and share are 0.
//
// Cost: x and dy are read twice, for the sums and for dx. The ReLU's output is recomputed from x, which takes no memory
// traffic, whereas reading y would. The sums are complete before dx is written, so dx may be dy.
template <Then then, class T>
absl::StatusOr<Kernel> MakeGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  constexpr bool kMasked = then != Then::kNothing;
  const ChannelTiles tiles(spec.inputs[0].shape);
  const ChannelSums<C, 2> sums(tiles);
  const bool fixed = !kMasked && spec.attrs.Bool("fixed_statistics");
  const C share = fixed ? C(0) : 1 / static_cast<C>(std::max<int64_t>(tiles.rows(), 1));
  const size_t numbers_bytes = LaneNumbers<C, 5>::Bytes(tiles);
  return Kernel{[tiles, sums, share, numbers_bytes,
                 epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](const KernelContext& context) {
                  const T *x = context.input<T>(0), *dy = context.input<T>(1);
                  const C *scale = context.input<C>(2), *mean = context.input<C>(kMasked ? 4 : 3),
                          *variance = context.input<C>(kMasked ? 5 : 4);
                  C *dscale = context.output<C>(1), *doffset = context.output<C>(2);
                  const LaneNumbers<C, 5> lanes(tiles, context.workspace);
                  // Normalization takes the first three of the lanes' numbers. Without a ReLU its offset is unused, so
                  // any pointer will do.
                  const Normalization<C> normal(tiles, {tiles, context.workspace}, epsilon, scale,
                                                kMasked ? context.input<C>(3) : scale, mean, variance);
                  // The ReLU is off where y was stored as 0, which includes positive values too small for the dtype,
                  // and a ReLU6 where it was stored as 6, too.
                  const auto slope = [=](int64_t c, C in, C out) {
                    constexpr C kZero = functor::RoundsToZero(kDTypeOf<T>);
                    if constexpr (then == Then::kRelu6) {
                      return functor::Relu6Grad<C>()(out, static_cast<C>(static_cast<T>(normal(c, in))));
                    }
                    return kMasked ? functor::ReluGrad<C>()(out, normal(c, in) - kZero) : out;
                  };
                  const C* total = sums.Run(
                      static_cast<std::byte*>(context.workspace) + numbers_bytes, 6,
                      [=](int64_t c, int64_t rows, int64_t step, auto width, auto& sum, const C* in, const C* out) {
                        for (int64_t row = 0; row < rows * step; row += step) {
                          C d[kPanel];  // Two loops, because GCC does not vectorise a sum over a conditional value.
#pragma omp simd
                          for (int64_t i = 0; i < width; ++i) d[i] = slope(c + i, in[row + i], out[row + i]);
#pragma omp simd
                          for (int64_t i = 0; i < width; ++i) {
                            sum[0][i] += d[i];
                            sum[1][i] += d[i] * (in[row + i] - normal.mean[c + i]);
                          }
                        }
                      },
                      x, dy);
                  // dx = factor (d - (level + (x - mean) tilt)), the formula above with its constants collected per
                  // channel.
                  C *const level = lanes.of[3], *const tilt = lanes.of[4];
                  for (int64_t c = 0; c < tiles.channels(); ++c) {
                    const C inverse = 1 / std::sqrt(variance[c] + epsilon);
                    doffset[c] = total[c];
                    dscale[c] = total[tiles.channels() + c] * inverse;
                    level[c] = share * doffset[c];
                    tilt[c] = share * dscale[c] * inverse;
                  }
                  for (C* numbers : {level, tilt}) tiles.Repeat(numbers);
                  ForEachElementByChannel(
                      tiles, 8, context.output<T>(0),
                      [=](int64_t c, C in, C out) {
                        return normal.factor[c] * (slope(c, in, out) - (level[c] + (in - normal.mean[c]) * tilt[c]));
                      },
                      x, dy);
                  return absl::OkStatus();
                },
                numbers_bytes + sums.workspace_bytes()};
}

// Inputs as of BatchNormReluGrad, and an addend of dy.
template <class T>
absl::StatusOr<Kernel> MakeReluGradOfSum(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(
      Kernel kernel,
      (MakeGrad<Then::kRelu, T>({spec.name, spec.attrs, spec.inputs.subspan(0, 6), spec.outputs, spec.device})));
  kernel.run = [run = std::move(kernel.run), n = spec.inputs[0].shape.elements()](const KernelContext& context) {
    AddAndMask<T>(n, context.input<T>(1), context.input<T>(6), nullptr, context.output<T>(0));
    const void* const inputs[] = {context.inputs[0], context.outputs[0], context.inputs[2],
                                  context.inputs[3], context.inputs[4],  context.inputs[5]};
    KernelContext summed = context;
    summed.inputs = inputs;
    return run(summed);
  };
  return kernel;
}

// Inputs x, dy, scale, mean, variance, the output of a ReLU over the normalisation and an addend and, if one is added,
// an addend of dy; outputs dx, dscale, doffset and the gradient of the ReLU's input.
template <class T>
absl::StatusOr<Kernel> MakeAddReluGrad(const KernelSpec& spec) {
  const Attrs attrs = {{"epsilon", spec.attrs.Float("epsilon")}, {"fixed_statistics", false}};
  ASSIGN_OR_RETURN(Kernel kernel, (MakeGrad<Then::kNothing, T>({spec.name, attrs, spec.inputs.subspan(0, 5),
                                                                spec.outputs.subspan(0, 3), spec.device})));
  kernel.run = [run = std::move(kernel.run), n = spec.inputs[0].shape.elements(),
                add = spec.inputs.size() > 6](const KernelContext& context) {
    AddAndMask(n, context.input<T>(1), add ? context.input<T>(6) : nullptr, context.input<T>(5), context.output<T>(3));
    const void* const inputs[] = {context.inputs[0], context.outputs[3], context.inputs[2], context.inputs[3],
                                  context.inputs[4]};
    KernelContext masked = context;
    masked.inputs = inputs;
    return run(masked);
  };
  return kernel;
}

// Checks x and the vectors over its channels, which are inputs `first` and following. Returns x, with the number of
// channels taken from them if it is unknown.
absl::StatusOr<Shape> CheckShapes(const ShapeArgs& args, size_t first) {
  Shape x = args.inputs[0];
  if (x.rank() != 4 && x.rank() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("x must be [N, H, W, C] or [N, C], not ", x.ToString()));
  }
  const DType wide = WideDType(args.dtypes[0]);
  for (size_t i = first; i < args.inputs.size(); ++i) {
    if (args.dtypes[i] != wide) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " must be ", DTypeName(wide), " for ",
                                                     DTypeName(args.dtypes[0]), " x, but is ",
                                                     DTypeName(args.dtypes[i])));
    }
    if (!Shape({x[-1]}).CompatibleWith(args.inputs[i])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", i, " must have shape [", x[-1], "], one element per channel, but has ", args.inputs[i].ToString()));
    }
    if (x[-1] == Shape::kUnknown) x.set_dim(-1, args.inputs[i][0]);
  }
  return x;
}

absl::StatusOr<std::vector<Shape>> TrainingShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckEpsilon(args.attrs));
  ASSIGN_OR_RETURN(Shape x, CheckShapes({args.attrs, args.inputs.subspan(0, 3), args.dtypes.subspan(0, 3)}, 1));
  if (args.inputs.size() > 3) {
    ASSIGN_OR_RETURN(x, x.Merge(args.inputs[3]));
  }
  return std::vector<Shape>{x, Shape({x[-1]}), Shape({x[-1]})};
}
absl::StatusOr<std::vector<Shape>> InferenceShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckEpsilon(args.attrs));
  ASSIGN_OR_RETURN(const Shape x, CheckShapes(args, 1));
  return std::vector<Shape>{x};
}
absl::StatusOr<std::vector<Shape>> NormGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(Shape x, CheckShapes(args, 2));
  ASSIGN_OR_RETURN(x, x.Merge(args.inputs[1]));
  return std::vector<Shape>{x, Shape({x[-1]}), Shape({x[-1]})};
}

absl::StatusOr<std::vector<Shape>> ReluGradOfSumShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(std::vector<Shape> shapes,
                   NormGradShape({args.attrs, args.inputs.subspan(0, 6), args.dtypes.subspan(0, 6)}));
  ASSIGN_OR_RETURN(shapes[0], shapes[0].Merge(args.inputs[6]));
  return shapes;
}
absl::StatusOr<std::vector<Shape>> AddReluGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(std::vector<Shape> shapes,
                   NormGradShape({args.attrs, args.inputs.subspan(0, 5), args.dtypes.subspan(0, 5)}));
  for (const Shape& like : args.inputs.subspan(5)) {
    ASSIGN_OR_RETURN(shapes[0], shapes[0].Merge(like));
  }
  shapes.push_back(shapes[0]);
  return shapes;
}

// The gradient of BatchNorm and BatchNormInference; mean and variance are outputs of the former and inputs of the
// latter.
std::vector<Output> BatchNormGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const bool fixed = node.inputs().size() == 5;
  std::vector<Output> gradients(node.inputs().size());
  if (!fixed && (dy[1].valid() || dy[2].valid())) {
    return NoGradient(
        "no gradient flows through the batch's mean and variance; use StopGradient, or compute them separately")(
        scope, node, dy);
  }
  const std::vector<Output> all =
      scope.AddAll("BatchNormGrad",
                   {node.input(0), dy[0], node.input(1), fixed ? node.input(3) : node.output(1),
                    fixed ? node.input(4) : node.output(2)},
                   {{"epsilon", node.attrs().Float("epsilon")}, {"fixed_statistics", fixed}});
  std::copy(all.begin(), all.end(), gradients.begin());
  // From the same formula for y, with fixed statistics:
  //   dmean = -scale doffset / sqrt(variance + epsilon),  dvariance = -scale dscale / (2 (variance + epsilon))
  if (fixed && !all.empty()) {
    const Output scale = node.input(1), dscale = all[1], doffset = all[2];
    const Output epsilon = Fill(scope, {}, node.attrs().Float("epsilon"), scale.dtype());
    const Output wide = Add(scope, node.input(4), epsilon);
    const Output scaled = Mul(scope, doffset, scale);
    gradients[3] = Neg(scope, Mul(scope, scaled, Rsqrt(scope, wide)));
    gradients[4] = Scale(scope, Div(scope, Mul(scope, dscale, scale), wide), -0.5);
  }
  return gradients;
}

std::vector<TypeVar> NormTypes() { return {{"T", kFloatTypes}, {"U", kWideFloatTypes}}; }
AttrDef EpsilonAttr() { return {"epsilon", 1e-3}; }

// The gradients that rewrites make, of which `gradient` is the plain one.
void AddFusedGradients(OpRegistry& registry, OpDef gradient) {
  gradient.name = "BatchNormReluGrad";
  gradient.inputs = {{"x"}, {"dy"}, Wide("scale"), Wide("offset"), Wide("mean"), Wide("variance")};
  gradient.attrs.resize(1);  // epsilon
  gradient.gradient = NoGradient(kByThePass);
  gradient.kernels = Kernels<float, double, Half, BFloat16>(
      "CPU", [](auto tag) { return &MakeGrad<Then::kRelu, typename decltype(tag)::type>; });
  registry.Add(gradient);
  gradient.name = "BatchNormRelu6Grad";
  gradient.kernels = Kernels<float, double, Half, BFloat16>(
      "CPU", [](auto tag) { return &MakeGrad<Then::kRelu6, typename decltype(tag)::type>; });
  registry.Add(gradient);
  gradient.name = "BatchNormReluGradOfSum";
  gradient.inputs.push_back({"dy_addend"});
  gradient.shape = ReluGradOfSumShape;
  gradient.in_place = {{1, 0}, {6, 0}};
  gradient.kernels = Kernels<float, double, Half, BFloat16>(
      "CPU", [](auto tag) { return &MakeReluGradOfSum<typename decltype(tag)::type>; });
  registry.Add(gradient);
  gradient.name = "BatchNormAddReluGrad";
  gradient.inputs = {{"x"}, {"dy"}, Wide("scale"), Wide("mean"), Wide("variance"), {"relu"}};
  gradient.outputs.push_back({"daddend"});
  gradient.shape = AddReluGradShape;
  gradient.in_place = {{1, 3}, {0, 0}};
  gradient.kernels = Kernels<float, double, Half, BFloat16>(
      "CPU", [](auto tag) { return &MakeAddReluGrad<typename decltype(tag)::type>; });
  registry.Add(gradient);
  gradient.name = "BatchNormAddReluGradOfSum";
  gradient.inputs.push_back({"dy_addend"});
  gradient.in_place = {{1, 3}, {6, 3}, {0, 0}};
  registry.Add(gradient);
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
  OpDef norm = {.name = "BatchNorm",
                .inputs = {{"x"}, Wide("scale"), Wide("offset")},
                .outputs = {{"y"}, Wide("mean"), Wide("variance")},
                .types = NormTypes(),
                .attrs = {EpsilonAttr()},
                .shape = TrainingShape,
                .gradient = BatchNormGradient,
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeTraining<Then::kNothing, typename decltype(tag)::type>; })};
  registry.Add(norm);
  registry.Add({.name = "BatchNormInference",
                .inputs = {{"x"}, Wide("scale"), Wide("offset"), Wide("mean"), Wide("variance")},
                .outputs = {{"y"}},
                .types = NormTypes(),
                .attrs = {EpsilonAttr()},
                .shape = InferenceShape,
                .gradient = BatchNormGradient,
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeInference<typename decltype(tag)::type>; })});
  // The fused forms, produced by the fusion pass.
  norm.name = "BatchNormRelu";
  norm.gradient = NoGradient(kByThePass);
  norm.kernels = Kernels<float, double, Half, BFloat16>(
      "CPU", [](auto tag) { return &MakeTraining<Then::kRelu, typename decltype(tag)::type>; });
  registry.Add(norm);
  norm.name = "BatchNormRelu6";
  norm.kernels = Kernels<float, double, Half, BFloat16>(
      "CPU", [](auto tag) { return &MakeTraining<Then::kRelu6, typename decltype(tag)::type>; });
  registry.Add(norm);
  norm.name = "BatchNormAddRelu";
  norm.inputs.push_back({"addend"});
  norm.in_place = {{3, 0}, {0, 0}};
  norm.kernels = Kernels<float, double, Half, BFloat16>(
      "CPU", [](auto tag) { return &MakeTraining<Then::kAddRelu, typename decltype(tag)::type>; });
  registry.Add(norm);
}

void RegisterBatchNormGradients(OpRegistry& registry) {
  OpDef gradient = {.name = "BatchNormGrad",
                    .inputs = {{"x"}, {"dy"}, Wide("scale"), Wide("mean"), Wide("variance")},
                    .outputs = {{"dx"}, Wide("dscale"), Wide("doffset")},
                    .types = NormTypes(),
                    .attrs = {EpsilonAttr(), {"fixed_statistics", false}},
                    .shape = NormGradShape,
                    .gradient = NoSecondDerivative(),
                    .in_place = {{1, 0}},
                    .kernels = Kernels<float, double, Half, BFloat16>(
                        "CPU", [](auto tag) { return &MakeGrad<Then::kNothing, typename decltype(tag)::type>; })};
  registry.Add(gradient);
  AddFusedGradients(registry, std::move(gradient));
}

}  // namespace belfry::ops
