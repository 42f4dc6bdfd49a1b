#include "ops/nn.h"
#include "ops/nn/functors.h"
#include "ops/nn/nn_impl.h"
#include "ops/nn/nn_ops.h"

namespace belfry::ops {
namespace {

// Buffers of one thread: a row of channels with `radius` zeros on both sides, and three rows.
struct Geometry {
  int64_t rows, channels, radius, slices;
  double bias, alpha, beta;

  explicit Geometry(const KernelSpec& spec) {
    const Shape& shape = spec.outputs[0].shape;
    channels = shape[-1];
    rows = shape.elements(0, shape.rank() - 1);
    radius = std::min(spec.attrs.Int("depth_radius"), channels);
    slices = ParallelThreads();
    bias = spec.attrs.Float("bias");
    alpha = spec.attrs.Float("alpha");
    beta = spec.attrs.Float("beta");
  }
  int64_t padded() const { return channels + 2 * radius; }
  int64_t slice_elements() const { return (padded() + 3 * channels + 15) / 16 * 16; }

  // Calls body(begin, end, buffers) on ranges of rows.
  template <class C, class Body>
  void ForEachSlice(void* workspace, const Body& body) const {
    const double cost = static_cast<double>(rows * channels * (2 * radius + 20)) / static_cast<double>(slices);
    ParallelFor(slices, cost, [&](int64_t first, int64_t last) {
      for (int64_t slice = first; slice < last; ++slice) {
        C* buffers = static_cast<C*>(workspace) + slice * slice_elements();
        std::fill_n(buffers, padded(), C(0));
        body(rows * slice / slices, rows * (slice + 1) / slices, buffers);
      }
    });
  }
};

// sums[c] = the sum of `padded` within the radius of c.
template <class C>
void WindowSums(const Geometry& g, const C* padded, C* sums) {
  std::copy_n(padded, g.channels, sums);
  for (int64_t d = 1; d <= 2 * g.radius; ++d) {
    for (int64_t c = 0; c < g.channels; ++c) sums[c] += padded[c + d];
  }
}

// In place: base = bias + alpha sum becomes base^-beta, and inverse = 1 / base.
template <class C>
void Powers(const Geometry& g, C* sums, C* inverse) {
  ArrayMap<C> power(sums, g.channels), inverses(inverse, g.channels);
  power = power * static_cast<C>(g.alpha) + static_cast<C>(g.bias);
  functor::NegativePower<C>(g.beta).Vector(power, inverses);
}

template <class T>
absl::StatusOr<Kernel> MakeLrn(const KernelSpec& spec) {
  using C = Compute<T>;
  const Geometry g(spec);
  return Kernel{[g](const KernelContext& context) {
                  const T* x = context.input<T>(0);
                  T* y = context.output<T>(0);
                  g.ForEachSlice<C>(context.workspace, [&](int64_t begin, int64_t end, C* buffers) {
                    C *squares = buffers + g.radius, *power = buffers + g.padded(), *inverse = power + g.channels;
                    for (int64_t at = begin * g.channels; at < end * g.channels; at += g.channels) {
                      for (int64_t c = 0; c < g.channels; ++c) {
                        const C value = static_cast<C>(x[at + c]);
                        squares[c] = value * value;
                      }
                      WindowSums(g, buffers, power);
                      Powers(g, power, inverse);
                      for (int64_t c = 0; c < g.channels; ++c) {
                        y[at + c] = static_cast<T>(static_cast<C>(x[at + c]) * power[c]);
                      }
                    }
                  });
                  return absl::OkStatus();
                },
                static_cast<size_t>(g.slices * g.slice_elements()) * sizeof(C)};
}

// dx[i] = dy[i] base[i]^-beta - 2 alpha beta x[i] sum dy[j] x[j] base[j]^(-beta - 1), j within the radius of i.
template <class T>
absl::StatusOr<Kernel> MakeLrnGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const Geometry g(spec);
  return Kernel{[g](const KernelContext& context) {
                  const T *dy = context.input<T>(0), *x = context.input<T>(1);
                  T* dx = context.output<T>(0);
                  const C factor = static_cast<C>(-2 * g.alpha * g.beta);
                  g.ForEachSlice<C>(context.workspace, [&](int64_t begin, int64_t end, C* buffers) {
                    C *inner = buffers + g.radius, *power = buffers + g.padded(), *inverse = power + g.channels;
                    C* sums = inverse + g.channels;
                    for (int64_t at = begin * g.channels; at < end * g.channels; at += g.channels) {
                      for (int64_t c = 0; c < g.channels; ++c) {
                        const C value = static_cast<C>(x[at + c]);
                        inner[c] = value * value;
                      }
                      WindowSums(g, buffers, power);
                      Powers(g, power, inverse);
                      for (int64_t c = 0; c < g.channels; ++c) {
                        inner[c] = static_cast<C>(dy[at + c]) * static_cast<C>(x[at + c]) * power[c] * inverse[c];
                      }
                      WindowSums(g, buffers, sums);
                      for (int64_t c = 0; c < g.channels; ++c) {
                        dx[at + c] = static_cast<T>(static_cast<C>(dy[at + c]) * power[c] +
                                                    factor * static_cast<C>(x[at + c]) * sums[c]);
                      }
                    }
                  });
                  return absl::OkStatus();
                },
                static_cast<size_t>(g.slices * g.slice_elements()) * sizeof(C)};
}

absl::StatusOr<std::vector<Shape>> LrnShape(const ShapeArgs& args) {
  if (args.inputs[0].rank() == 0) return absl::InvalidArgumentError("x must have a last axis, of channels");
  if (args.attrs.Int("depth_radius") < 0) return absl::InvalidArgumentError("depth_radius must not be negative");
  return SameAsAll(args);
}

}  // namespace

Output LocalResponseNormalization(OpScope scope, Output x, const LrnOptions& options) {
  return scope.Add("LRN", {x},
                   {{"depth_radius", options.depth_radius},
                    {"bias", options.bias},
                    {"alpha", options.alpha},
                    {"beta", options.beta}});
}

void RegisterLrn(OpRegistry& registry) {
  const std::vector<AttrDef> attrs = {{"depth_radius", int64_t{5}}, {"bias", 1.0}, {"alpha", 1.0}, {"beta", 0.5}};
  registry.Add({.name = "LRN",
                .inputs = {{"x"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = LrnShape,
                .gradient = GradientFrom("LRNGrad", /*from_output=*/false, {"depth_radius", "bias", "alpha", "beta"}),
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeLrn<typename decltype(tag)::type>; })});
  registry.Add({.name = "LRNGrad",
                .inputs = {{"dy"}, {"x"}},
                .outputs = {{"dx"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = LrnShape,
                .gradient = NoSecondDerivative(),
                .in_place = {{0, 0}, {1, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeLrnGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
