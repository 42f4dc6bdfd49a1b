#include "ops/activation/functors.h"
#include "ops/array.h"
#include "ops/common/op_rules_impl.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/normalisation/normalisation_ops.h"
#include "ops/simd/math_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {
namespace {

// Elements in a thread's block of rows, which fits in the L1 cache.
constexpr int64_t kBlockElements = 1024;

// As many elements as the widest vector register holds, and their values at any address. Eigen loads them with whatever
// registers there are; a vector type of the compiler that is wider than these goes through memory.
template <class C>
constexpr int kVector = 64 / sizeof(C);
template <class C>
using Vector = Eigen::Array<C, kVector<C>, 1>;

// Division of the rows among threads. A thread's buffers hold a block of rows padded by `radius` zeros on both sides of
// each, and `plain` unpadded blocks.
struct LrnGeometry {
  int64_t rows, channels, radius, slices, block, plain;
  double bias, alpha, beta;

  // `plain` is the number of unpadded buffers.
  LrnGeometry(const KernelSpec& spec, int64_t plain) : plain(plain) {
    const Shape& shape = spec.outputs[0].shape;
    channels = shape[-1];
    rows = shape.elements(0, shape.rank() - 1);
    radius = std::min(spec.attrs.Int("depth_radius"), channels);
    slices = ParallelThreads();
    block = std::clamp<int64_t>(channels == 0 ? 1 : kBlockElements / channels, 1, std::max<int64_t>(rows, 1));
    bias = spec.attrs.Float("bias");
    alpha = spec.attrs.Float("alpha");
    beta = spec.attrs.Float("beta");
  }
  int64_t padded() const { return channels + 2 * radius; }
  int64_t slice_elements() const { return (block * (padded() + plain * channels) + 15) / 16 * 16; }

  // Calls body(index of the first element, rows, buffers) for each block of rows.
  template <class C, class Body>
  void ForEachBlock(void* workspace, const Body& body) const {
    const double cost = static_cast<double>(rows * channels * (2 * radius + 20)) / static_cast<double>(slices);
    ParallelFor(slices, cost, [&](int64_t first, int64_t last) {
      for (int64_t slice = first; slice < last; ++slice) {
        C* buffers = static_cast<C*>(workspace) + slice * slice_elements();
        std::fill_n(buffers, block * padded(), C(0));
        // Block boundaries depend on the shape only: elements at the ends of a block are computed one by one, and
        // rounded differently.
        const int64_t blocks = (rows + block - 1) / block;
        for (int64_t i = blocks * slice / slices; i < blocks * (slice + 1) / slices; ++i) {
          body(i * block * channels, std::min(block, rows - i * block), buffers);
        }
      }
    });
  }
};

// sums[row, c] = sum of padded[row] over the channels within the radius of c.
template <class C>
void WindowSums(const LrnGeometry& g, int64_t rows, C* padded, C* sums) {
  for (int64_t row = 0; row < rows; ++row, padded += g.padded(), sums += g.channels) {
    int64_t c = 0;
    for (; c + kVector<C> <= g.channels; c += kVector<C>) {
      Vector<C> sum = Eigen::Map<const Vector<C>>(padded + c);
      for (int64_t d = 1; d <= 2 * g.radius; ++d) sum += Eigen::Map<const Vector<C>>(padded + c + d);
      Eigen::Map<Vector<C>>(sums + c) = sum;
    }
    for (; c < g.channels; ++c) {
      C sum = padded[c];
      for (int64_t d = 1; d <= 2 * g.radius; ++d) sum += padded[c + d];
      sums[c] = sum;
    }
  }
}

// Replaces sums by base^-beta, where base = bias + alpha sum, and sets inverse = 1 / base.
template <class C>
void Powers(const LrnGeometry& g, int64_t rows, C* sums, C* inverse) {
  ArrayMap<C> power(sums, rows * g.channels), inverses(inverse, rows * g.channels);
  power = power * static_cast<C>(g.alpha) + static_cast<C>(g.bias);
  if (g.beta == 0.75) {  // as functor::NegativePower
    power = power.rsqrt();
    inverses = power.square();
    power = inverses * power.rsqrt();
  } else if (g.beta == 0.5) {
    power = power.rsqrt();
    inverses = power.square();
  } else {
    inverses = power.inverse();
    simd::Map<C>(power.size(), sums, sums,
                 [beta = static_cast<C>(g.beta)](auto v) { return simd::Exp(simd::Log(v) * -beta); });
  }
}

// Computes base^-beta and 1 / base for a block of x.
template <class C>
void PowersOf(const LrnGeometry& g, const C* x, int64_t rows, C* buffers, C* power, C* inverse) {
  C* squares = buffers + g.radius;
  for (int64_t row = 0; row < rows; ++row, squares += g.padded(), x += g.channels) {
    for (int64_t c = 0; c < g.channels; ++c) squares[c] = x[c] * x[c];
  }
  WindowSums(g, rows, buffers, power);
  Powers(g, rows, power, inverse);
}

// Number of unpadded buffers per tensor: 16-bit tensors are converted to float in one.
template <class T>
constexpr int64_t kWide = kIsSixteenBit<T> ? 1 : 0;

template <class T>
absl::StatusOr<Kernel> MakeLrn(const KernelSpec& spec) {
  using C = Compute<T>;
  const LrnGeometry g(spec, 2 + kWide<T>);
  const auto run = [g](const KernelContext& context) {
    g.ForEachBlock<C>(context.workspace, [&](int64_t at, int64_t rows, C* buffers) {
      const int64_t n = rows * g.channels;
      C *power = buffers + g.block * g.padded(), *inverse = power + g.block * g.channels;
      C* const wide = inverse + g.block * g.channels;
      const C* const x = Widened(context.input<T>(0) + at, wide, n);
      C* const y = Wide(context.output<T>(0) + at, wide);
      PowersOf(g, x, rows, buffers, power, inverse);
      // y may be x, of which an element is read before it is written.
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] * power[i];
      Narrowed(y, context.output<T>(0) + at, n);
    });
    return absl::OkStatus();
  };
  return Kernel{run, static_cast<size_t>(g.slices * g.slice_elements()) * sizeof(C)};
}

// dx[i] = dy[i] base[i]^-beta - 2 alpha beta x[i] sum dy[j] x[j] base[j]^(-beta - 1), over j within the radius of i. If
// masked, 0 where x[i] is not above 0.
template <class T>
absl::StatusOr<Kernel> MakeLrnGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const LrnGeometry g(spec, 3 + 2 * kWide<T>);
  const auto run = [g, masked = spec.attrs.Bool("masked")](const KernelContext& context) {
    const C factor = static_cast<C>(-2 * g.alpha * g.beta);
    g.ForEachBlock<C>(context.workspace, [&](int64_t at, int64_t rows, C* buffers) {
      const int64_t n = rows * g.channels, all = g.block * g.channels;
      C *power = buffers + g.block * g.padded(), *inverse = power + all, *sums = inverse + all, *wide = sums + all;
      const C* const dy = Widened(context.input<T>(0) + at, wide, n);
      const C* const x = Widened(context.input<T>(1) + at, wide + all, n);
      C* const dx = Wide(context.output<T>(0) + at, wide);
      PowersOf(g, x, rows, buffers, power, inverse);
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t begin = row * g.channels;
        C* inner = buffers + row * g.padded() + g.radius;
        for (int64_t c = 0; c < g.channels; ++c) {
          inner[c] = dy[begin + c] * x[begin + c] * power[begin + c] * inverse[begin + c];
        }
      }
      WindowSums(g, rows, buffers, sums);
      // dx may be dy or x, of which an element is read before it is written.
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const C gradient = dy[i] * power[i] + factor * x[i] * sums[i];
        dx[i] = (!masked | (x[i] > 0)) ? gradient : C(0);
      }
      Narrowed(dx, context.output<T>(0) + at, n);
    });
    return absl::OkStatus();
  };
  return Kernel{run, static_cast<size_t>(g.slices * g.slice_elements()) * sizeof(C)};
}

absl::StatusOr<std::vector<Shape>> LrnShape(const ShapeArgs& args) {
  if (args.inputs[0].rank() == 0) return absl::InvalidArgumentError("x must have a last axis (the channels)");
  if (args.attrs.Int("depth_radius") < 0) return absl::InvalidArgumentError("depth_radius must not be negative");
  return SameAsAll(args);
}

std::vector<AttrDef> LrnAttrs() { return {{"depth_radius", int64_t{5}}, {"bias", 1.0}, {"alpha", 1.0}, {"beta", 0.5}}; }

// The sums over the channels within the radius are a convolution with ones along the channels.
Differentiable LrnForward(const Scope& scope, const Node& node, absl::Span<const Output> inputs) {
  const Output x = inputs[lrn_grad::kX];
  const Attrs& attrs = node.attrs();
  const Output rows = Reshape(scope, Square(scope, x), {-1, Extent::Of(x, -1), 1});
  const Output ones = Fill(scope, {2 * attrs.Int("depth_radius") + 1, 1, 1}, 1, x.dtype());
  const Output sums = ReshapeLike(scope, Conv1D(scope, rows, ones), x);
  const Output base = Add(scope, Scale(scope, sums, attrs.Float("alpha")), attrs.Float("bias"));
  return {{Mul(scope, x, Pow(scope, base, -attrs.Float("beta")))}, {x}, {inputs[lrn_grad::kDy]}};
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
  registry.Add({.name = "LRN",
                .inputs = {{"x"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = LrnAttrs(),
                .shape = LrnShape,
                .gradient = GradientFrom("LRNGrad", /*from_output=*/false, {"depth_radius", "bias", "alpha", "beta"}),
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeLrn<typename decltype(tag)::type>; })});
}

void RegisterLrnGradients(OpRegistry& registry) {
  std::vector<AttrDef> attrs = LrnAttrs();
  attrs.push_back({"masked", false});  // set by the rewrite "lrn_masks"
  registry.Add({.name = "LRNGrad",
                .inputs = {{"dy"}, {"x"}},
                .outputs = {{"dx"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = LrnShape,
                .gradient = GradientOfGradient(LrnForward),
                .in_place = {{0, 0}, {1, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeLrnGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
