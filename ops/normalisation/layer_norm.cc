#include <cmath>

#include "ops/common/op_rules_impl.h"
#include "ops/nn.h"
#include "ops/normalisation/normalisation_ops.h"
#include "ops/reduction/column_sums.h"

namespace belfry::ops {
namespace {

template <class C>
struct Moments {
  C mean, inverse;  // inverse: 1 / sqrt(variance + epsilon)
};

template <class T>
Moments<Compute<T>> MomentsOf(const T* x, int64_t n, double epsilon) {
  using C = Compute<T>;
  C sum = 0, squares = 0;
  alignas(64) C block[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    Load(x + begin, size, block);
    sum += ArrayMap<C>(block, size).sum();
  }
  const C mean = sum / static_cast<C>(n);
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    Load(x + begin, size, block);
    squares += (ArrayMap<C>(block, size) - mean).square().sum();
  }
  return {mean, 1 / std::sqrt(squares / static_cast<C>(n) + static_cast<C>(epsilon))};
}

// x viewed as [rows, n], where n is the number of normalised elements.
struct Rows {
  int64_t rows, n;
  double epsilon;

  explicit Rows(const KernelSpec& spec) {
    const Shape &x = spec.inputs[0].shape, &scale = spec.inputs[1].shape;
    n = scale.elements();
    rows = x.elements(0, x.rank() - scale.rank());
    epsilon = spec.attrs.Float("epsilon");
  }
};

template <class T>
absl::StatusOr<Kernel> MakeLayerNorm(const KernelSpec& spec) {
  using C = Compute<T>;
  return Kernel{[r = Rows(spec)](const KernelContext& context) {
    const T *x = context.input<T>(0), *scale = context.input<T>(1), *offset = context.input<T>(2);
    T* y = context.output<T>(0);
    ParallelFor(r.rows, 8.0 * static_cast<double>(r.n), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x + row * r.n;
        T* to = y + row * r.n;
        const auto [mean, inverse] = MomentsOf(from, r.n, r.epsilon);
        for (int64_t i = 0; i < r.n; ++i) {
          const C normal = (static_cast<C>(from[i]) - mean) * inverse;
          to[i] = static_cast<T>(normal * static_cast<C>(scale[i]) + static_cast<C>(offset[i]));
        }
      }
    });
    return absl::OkStatus();
  }};
}

// With g = dy scale and z = x normalised: dx = (g - mean(g) - z mean(g z)) inverse. Adds the row to dscale and doffset.
template <class T>
void GradRow(const Rows& r, const T* x, const T* scale, const T* dy, T* dx, Compute<T>* dscale, Compute<T>* doffset) {
  using C = Compute<T>;
  const Moments<C> moments = MomentsOf(x, r.n, r.epsilon);
  const C mean = moments.mean, inverse = moments.inverse;
  C g_sum = 0, gz_sum = 0;
  for (int64_t i = 0; i < r.n; ++i) {
    const C z = (static_cast<C>(x[i]) - mean) * inverse, slope = static_cast<C>(dy[i]);
    dscale[i] += slope * z;
    doffset[i] += slope;
    g_sum += slope * static_cast<C>(scale[i]);
    gz_sum += slope * static_cast<C>(scale[i]) * z;
  }
  g_sum /= static_cast<C>(r.n);
  gz_sum /= static_cast<C>(r.n);
  for (int64_t i = 0; i < r.n; ++i) {
    const C z = (static_cast<C>(x[i]) - mean) * inverse;
    dx[i] = static_cast<T>((static_cast<C>(dy[i]) * static_cast<C>(scale[i]) - g_sum - z * gz_sum) * inverse);
  }
}

// Inputs x, scale, dy; outputs dx, dscale, doffset.
template <class T>
absl::StatusOr<Kernel> MakeLayerNormGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const Rows r(spec);
  const ColumnSums<C> sums(r.rows, r.n, 2);
  return Kernel{[r, sums](const KernelContext& context) {
                  const T *x = context.input<T>(0), *scale = context.input<T>(1), *dy = context.input<T>(2);
                  T* dx = context.output<T>(0);
                  const C* total = sums.Run(context.workspace, [=](int64_t row, C* to) {
                    GradRow(r, x + row * r.n, scale, dy + row * r.n, dx + row * r.n, to, to + r.n);
                  });
                  Store(total, r.n, context.output<T>(1));
                  Store(total + r.n, r.n, context.output<T>(2));
                  return absl::OkStatus();
                },
                sums.workspace_bytes()};
}

absl::StatusOr<std::vector<Shape>> LayerNormShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckEpsilon(args.attrs));
  const Shape &x = args.inputs[0], &scale = args.inputs[1];
  ASSIGN_OR_RETURN(const Shape both, scale.Merge(args.inputs[2]));
  bool fits = both.rank() >= 1 && both.rank() <= x.rank();
  Shape y = x;
  for (int i = 1; fits && i <= both.rank(); ++i) {
    const int64_t extent = both[-i];
    if (y[-i] == Shape::kUnknown) y.set_dim(-i, extent);
    fits = extent == Shape::kUnknown || y[-i] == extent;
  }
  if (fits) return std::vector<Shape>{y};
  return absl::InvalidArgumentError(absl::StrCat("scale and offset must have the shape of the last axes of x ",
                                                 x.ToString(), ", but have ", both.ToString()));
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

}  // namespace

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
  registry.Add({.name = "LayerNormGrad",
                .inputs = {{"x"}, {"scale"}, {"dy"}},
                .outputs = {{"dx"}, {"dscale"}, {"doffset"}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"epsilon", 1e-5}},
                .shape = LayerNormGradShape,
                .gradient = NoSecondDerivative(),
                .in_place = {{0, 0}, {2, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeLayerNormGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
