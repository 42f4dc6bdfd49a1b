#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/training.h"
#include "ops/training/norm_impl.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> NormShape(const ShapeArgs&) { return std::vector<Shape>{Shape()}; }

absl::StatusOr<std::vector<Shape>> ClipShape(const ShapeArgs& args) {
  if (args.inputs[1].rank() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the norm must be a scalar, not ", args.inputs[1].ToString()));
  }
  if (!(args.attrs.Float("clip_norm") > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'clip_norm' must be positive, but is ", args.attrs.Float("clip_norm")));
  }
  return std::vector<Shape>{args.inputs[0]};
}

template <class T>
absl::StatusOr<Kernel> MakeGlobalNorm(const KernelSpec& spec) {
  std::vector<int64_t> sizes;
  int64_t chunks = 0;
  for (const TensorSpec& input : spec.inputs) {
    sizes.push_back(input.shape.elements());
    chunks = std::max(chunks, NormChunks(sizes.back()));
  }
  const auto run = [sizes, wide = spec.outputs[0].dtype == DType::kFloat64](const KernelContext& context) {
    const double norm = EuclideanNorm<T>(static_cast<double*>(context.workspace), [&](const auto& f) {
      for (size_t i = 0; i < sizes.size(); ++i) f(context.input<T>(static_cast<int>(i)), sizes[i]);
    });
    if (wide) {
      context.output<double>(0)[0] = norm;
    } else {
      context.output<float>(0)[0] = static_cast<float>(norm);
    }
    return absl::OkStatus();
  };
  return Kernel{run, sizeof(double) * static_cast<size_t>(chunks)};
}

template <class T>
absl::StatusOr<Kernel> MakeClipToNorm(const KernelSpec& spec) {
  using C = UpdateMath<T>;
  return Kernel{[n = spec.outputs[0].shape.elements(), clip = spec.attrs.Float("clip_norm"),
                 wide = spec.inputs[1].dtype == DType::kFloat64](const KernelContext& context) {
    const double norm = wide ? context.input<double>(1)[0] : context.input<float>(1)[0];
    const ClipRule<C> rule(norm, clip);
    const T* x = context.input<T>(0);
    T* y = context.output<T>(0);
    ParallelFor(n, 1, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = static_cast<T>(rule(static_cast<C>(x[i])));
    });
    return absl::OkStatus();
  }};
}

// dy x / norm, or 0 where the norm is 0.
std::vector<Output> GlobalNormGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const Output norm = node.output(0), one = OnesLike(scope, norm);
  const Output size = Select(scope, Greater(scope, norm, ZerosLike(scope, norm)), norm, one);
  std::vector<Output> dx;
  for (const Output& x : node.inputs()) {
    const Output unit = Div(scope, Cast(scope, x, norm.dtype()), size);
    dx.push_back(Cast(scope, Mul(scope, unit, dy[0]), x.dtype()));
  }
  return dx;
}

// y = x clip_norm / norm where the norm is larger than that, else x.
std::vector<Output> ClipToNormGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const Output norm = node.input(1);
  const double clip_norm = node.attrs().Float("clip_norm");
  const Output clips = Greater(scope, norm, Fill(scope, {}, clip_norm, norm.dtype()));
  const Output size = Select(scope, clips, norm, OnesLike(scope, norm));
  // Not in the dtype of x: products of float16 overflow.
  const Output products = Mul(scope, Cast(scope, dy[0], norm.dtype()), Cast(scope, node.output(0), norm.dtype()));
  const Output slope = Neg(scope, Div(scope, Sum(scope, products), size));
  return {ClipToNorm(scope, dy[0], norm, clip_norm), Select(scope, clips, slope, ZerosLike(scope, norm))};
}

}  // namespace

Output GlobalNorm(OpScope scope, absl::Span<const Output> tensors, DType dtype) {
  return scope.Add("GlobalNorm", std::vector<Output>(tensors.begin(), tensors.end()), {{"N", dtype}});
}

Output ClipToNorm(OpScope scope, Output x, Output norm, double clip_norm) {
  return scope.Add("ClipToNorm", {x, norm}, {{"clip_norm", clip_norm}});
}

void RegisterClipOps(OpRegistry& registry) {
  registry.Add({.name = "GlobalNorm",
                .inputs = {{.name = "first"}, {.name = "rest", .list = true}},
                .outputs = {{.name = "norm", .type = "N"}},
                .types = {{"T", kFloatTypes}, {"N", kWideFloatTypes}},
                .shape = NormShape,
                .gradient = GlobalNormGradient,
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeGlobalNorm<typename decltype(tag)::type>; })});
  registry.Add({.name = "ClipToNorm",
                .inputs = {{.name = "x"}, {.name = "norm", .type = "N"}},
                .outputs = {{.name = "y"}},
                .types = {{"T", kFloatTypes}, {"N", kWideFloatTypes}},
                .attrs = {{"clip_norm", 0.0, true}},
                .shape = ClipShape,
                .gradient = ClipToNormGradient,
                .elementwise = true,
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeClipToNorm<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
