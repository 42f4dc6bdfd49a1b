#include <cmath>
#include <cstddef>
#include <utility>

#include "framework/base/status.h"
#include "ops/activation/activate.h"
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

template <Then then, class C, class Lanes = typename simd::Vector<C>::Lanes>
Lanes Activated(Lanes y) {
  using V = simd::Vector<C>;
  if constexpr (then == Then::kNothing) return y;
  const Lanes low = V::Relu(y);
  if constexpr (then == Then::kRelu6) return V::Choose(low > 6, V::Fill(6), low);
  return low;
}

// dy, or 0 where the activation is off. It is off where y was stored as 0, which includes positive values too small for
// the dtype T, and a ReLU6 where y was stored as 6, too.
template <Then then, class T, class C = Compute<T>, class Lanes = typename simd::Vector<C>::Lanes>
Lanes Masked(Lanes dy, Lanes y) {
  using V = simd::Vector<C>;
  if constexpr (then == Then::kNothing) return dy;
  const typename V::Mask positive = y > C(functor::RoundsToZero(kDTypeOf<T>));
  if constexpr (then == Then::kRelu6) {
    return V::Choose(positive & (y < C(functor::RoundsToSix(kDTypeOf<T>))), dy, Lanes{});
  }
  return V::Choose(positive, dy, Lanes{});
}

// y = scale (x - mean) / sqrt(variance + epsilon) + offset, with the constants of each channel computed once and laid
// out by lanes. The gradient evaluates the same expression, so both passes get the same bits.
template <class C>
struct Normalization {
  using V = simd::Vector<C>;
  using Lanes = typename V::Lanes;
  const C *mean, *factor, *offset;

  using Numbers = LaneNumbers<C, 3>;
  Normalization(const ChannelRows& rows, const Numbers& numbers, C epsilon, const C* scale, const C* shift,
                const C* center, const C* variance)
      : mean(numbers.of[0]), factor(numbers.of[1]), offset(numbers.of[2]) {
    for (int64_t c = 0; c < rows.channels(); ++c) {
      numbers.of[0][c] = center[c];
      numbers.of[1][c] = scale[c] / std::sqrt(variance[c] + epsilon);
      numbers.of[2][c] = shift[c];
    }
    for (C* lanes : numbers.of) rows.Repeat(lanes);
  }

  struct OfLanes {
    Lanes mean, factor, offset;
    Lanes operator()(Lanes x) const { return (x - mean) * factor + offset; }
  };
  OfLanes At(int64_t lane) const { return {V::Load(mean + lane), V::Load(factor + lane), V::Load(offset + lane)}; }
};

template <Then then, class T, class C>
void Normalize(const ChannelRows& rows, const Normalization<C>& normal, const T* x, const T* addend, T* y) {
  if constexpr (then == Then::kAddRelu) {
    MapByChannel(
        rows, 6, y,
        [=](int64_t lane) {
          return [of = normal.At(lane)](auto in, auto more) { return Activated<then, C>(of(in) + more); };
        },
        x, addend);
  } else {
    MapByChannel(
        rows, then == Then::kNothing ? 4 : 5, y,
        [=](int64_t lane) { return [of = normal.At(lane)](auto in) { return Activated<then, C>(of(in)); }; }, x);
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
  const ChannelRows rows(spec.inputs[0].shape);
  const ChannelMomentsKernel<C> moments(rows);
  return Kernel{[rows, moments, epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](const KernelContext& context) {
                  const T* x = context.input<T>(0);
                  C *mean = context.output<C>(1), *variance = context.output<C>(2);
                  moments.Run(context.workspace, x, mean, variance);
                  const Normalization<C> normal(rows, {rows, context.workspace}, epsilon, context.input<C>(1),
                                                context.input<C>(2), mean, variance);
                  Normalize<then>(rows, normal, x, then == Then::kAddRelu ? context.input<T>(3) : nullptr,
                                  context.output<T>(0));
                  return absl::OkStatus();
                },
                std::max(moments.workspace_bytes(), Normalization<C>::Numbers::Bytes(rows))};
}

// Inputs x, scale, offset, mean, variance; output y.
template <class T>
absl::StatusOr<Kernel> MakeInference(const KernelSpec& spec) {
  using C = Compute<T>;
  const ChannelRows rows(spec.inputs[0].shape);
  return Kernel{[rows, epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](const KernelContext& context) {
                  const Normalization<C> normal(rows, {rows, context.workspace}, epsilon, context.input<C>(1),
                                                context.input<C>(2), context.input<C>(3), context.input<C>(4));
                  Normalize<Then::kNothing, T>(rows, normal, context.input<T>(0), nullptr, context.output<T>(0));
                  return absl::OkStatus();
                },
                Normalization<C>::Numbers::Bytes(rows)};
}

// The gradient of a normalisation's output: dy, with an addend if there is one, and 0 where `relu`, the output of a
// ReLU, is, if there is one. With either, the pass over the sums writes it to `sum` for the next one; otherwise that is
// null.
template <class T>
struct OutputGradient {
  const T *dy, *addend, *relu;
  T* sum;
};

// dx, dscale and doffset.
//
// Let z = (x - mean) / sqrt(variance + epsilon), y = scale z + offset, and let d be dy, or 0 where the ReLU is off.
// Summed over the rows of a channel,
//
//   doffset = sum d        dscale = sum d z
//   dx = factor (d - share (doffset + z dscale)),  factor = scale / sqrt(variance + epsilon)
//
// share = 1 / rows, because mean and variance depend on every row of x: d mean / dx = 1 / rows and d variance / dx = 2
// (x - mean) / rows. If the statistics are fixed, both derivatives are 0, and dx = factor d.
//
// Cost: x and dy are read twice, for the sums and for dx. The output of a ReLU that follows immediately is recomputed
// from x, which takes no memory traffic, whereas reading it would. The sums are complete before dx is written, so dx
// may be any of the others.
template <Then then, class T>
class Gradient {
  using C = Compute<T>;
  using V = simd::Vector<C>;

 public:
  Gradient(const KernelSpec& spec, bool fixed)
      : rows_(spec.inputs[0].shape),
        sums_(rows_),
        fixed_(fixed),
        share_(1 / static_cast<C>(std::max<int64_t>(rows_.rows(), 1))),
        epsilon_(static_cast<C>(spec.attrs.Float("epsilon"))) {}

  size_t workspace_bytes() const { return LaneNumbers<C, 5>::Bytes(rows_) + sums_.workspace_bytes(); }

  // Numbers of the channels: without an activation, the offset is unused and may be null.
  struct Channels {
    const C *scale, *offset, *mean, *variance;
    C *dscale, *doffset;
  };
  void Run(void* workspace, const T* x, const OutputGradient<T>& gradient, const Channels& of, T* dx) const {
    const LaneNumbers<C, 5> lanes(rows_, workspace);
    // Normalization takes the first three of the lanes' numbers.
    const Normalization<C> normal(rows_, {rows_, workspace}, epsilon_, of.scale,
                                  of.offset == nullptr ? of.scale : of.offset, of.mean, of.variance);
    void* const space = static_cast<std::byte*>(workspace) + LaneNumbers<C, 5>::Bytes(rows_);
    if (gradient.sum == nullptr) {
      SumSlopes<false>(space, normal, x, gradient, of);
    } else {
      SumSlopes<true>(space, normal, x, gradient, of);
    }
    const T* const dy = gradient.sum == nullptr ? gradient.dy : gradient.sum;
    // dx = factor (d - (level + (x - mean) tilt)), the formula above with its constants collected per channel.
    C *const level = lanes.of[3], *const tilt = lanes.of[4];
    for (int64_t c = 0; c < rows_.channels(); ++c) {
      const C inverse = 1 / std::sqrt(of.variance[c] + epsilon_);
      of.dscale[c] *= inverse;
      level[c] = share_ * of.doffset[c];
      tilt[c] = share_ * of.dscale[c] * inverse;
    }
    if constexpr (then == Then::kNothing) {
      if (fixed_) {
        const auto scaled = [=](int64_t lane) {
          return [factor = normal.At(lane).factor](auto d) { return factor * d; };
        };
        MapByChannel(rows_, 2, dx, scaled, dy);
        return;
      }
    }
    for (C* numbers : {level, tilt}) rows_.Repeat(numbers);
    MapByChannel(
        rows_, 8, dx,
        [=](int64_t lane) {
          return [n = normal.At(lane), level = V::Load(level + lane), tilt = V::Load(tilt + lane)](auto in, auto out) {
            return n.factor * (Masked<then, T>(out, n(in)) - (level + (in - n.mean) * tilt));
          };
        },
        x, dy);
  }

 private:
  template <bool kMakesSum>
  void SumSlopes(void* space, const Normalization<C>& normal, const T* x, const OutputGradient<T>& gradient,
                 const Channels& of) const {
    sums_.Run(space, 6,
              [=](int64_t lane) {
                return [=, n = normal.At(lane)](auto strip, int row, auto& sums) {
                  auto out = strip.Load(gradient.dy, row);
                  if constexpr (kMakesSum) {
                    if (gradient.addend != nullptr) out += strip.Load(gradient.addend, row);
                    if (gradient.relu != nullptr) out = Masked<Then::kRelu, C>(out, strip.Load(gradient.relu, row));
                    strip.Store(out, gradient.sum, row);
                    out = strip.Load(gradient.sum, row);  // as rounded
                  }
                  const auto in = strip.Load(x, row);
                  const auto d = Masked<then, T>(out, n(in));
                  sums[0] += d;
                  sums[1] += d * (in - n.mean);
                };
              },
              {of.doffset, of.dscale});
  }

  ChannelRows rows_;
  ChannelSums<C, 2> sums_;
  bool fixed_;
  C share_, epsilon_;
};

// Inputs x, dy, scale, [offset,] mean, variance and, with one, an addend of dy; outputs dx, dscale, doffset. With the
// offset, dy is the gradient of a ReLU, or ReLU6, that follows the normalisation. dx may be dy or its addend.
template <Then then, class T>
absl::StatusOr<Kernel> MakeGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  constexpr bool kMasked = then != Then::kNothing;
  const Gradient<then, T> gradient(spec, !kMasked && spec.attrs.Bool("fixed_statistics"));
  return Kernel{[gradient, adds = kMasked && spec.inputs.size() > 6](const KernelContext& context) {
                  const int mean = kMasked ? 4 : 3;
                  T* const dx = context.output<T>(0);
                  gradient.Run(
                      context.workspace, context.input<T>(0),
                      {context.input<T>(1), adds ? context.input<T>(6) : nullptr, nullptr, adds ? dx : nullptr},
                      {context.input<C>(2), kMasked ? context.input<C>(3) : nullptr, context.input<C>(mean),
                       context.input<C>(mean + 1), context.output<C>(1), context.output<C>(2)},
                      dx);
                  return absl::OkStatus();
                },
                gradient.workspace_bytes()};
}

// Inputs x, dy, scale, mean, variance, the output of a ReLU over the normalisation and an addend and, if one is added,
// an addend of dy; outputs dx, dscale, doffset and the gradient of the ReLU's input.
template <class T>
absl::StatusOr<Kernel> MakeAddReluGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const Gradient<Then::kNothing, T> gradient(spec, /*fixed=*/false);
  return Kernel{[gradient, adds = spec.inputs.size() > 6](const KernelContext& context) {
                  gradient.Run(context.workspace, context.input<T>(0),
                               {context.input<T>(1), adds ? context.input<T>(6) : nullptr, context.input<T>(5),
                                context.output<T>(3)},
                               {context.input<C>(2), nullptr, context.input<C>(3), context.input<C>(4),
                                context.output<C>(1), context.output<C>(2)},
                               context.output<T>(0));
                  return absl::OkStatus();
                },
                gradient.workspace_bytes()};
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

Differentiable BatchNormForward(const Scope& scope, const Node& node, absl::Span<const Output> inputs) {
  const Output x = inputs[batch_norm_grad::kX], scale = inputs[batch_norm_grad::kScale];
  const Output offset = ZerosLike(scope, scale), mean = inputs[batch_norm_grad::kMean];
  const double epsilon = node.attrs().Float("epsilon");
  const Output z =
      node.attrs().Bool("fixed_statistics")
          ? Mul(scope, Sub(scope, x, mean), Rsqrt(scope, Add(scope, inputs[batch_norm_grad::kVariance], epsilon)))
          : Normalized(scope, x, AllButLast(x), epsilon);
  return {{Add(scope, Mul(scope, z, scale), offset)}, {x, scale, offset}, {inputs[batch_norm_grad::kDy]}};
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
      "CPU", [](auto tag) { return &MakeGrad<Then::kRelu, typename decltype(tag)::type>; });
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
                    .gradient = GradientOfGradient(BatchNormForward),
                    .in_place = {{1, 0}},
                    .kernels = Kernels<float, double, Half, BFloat16>(
                        "CPU", [](auto tag) { return &MakeGrad<Then::kNothing, typename decltype(tag)::type>; })};
  registry.Add(gradient);
  AddFusedGradients(registry, std::move(gradient));
}

}  // namespace belfry::ops
