#include <cmath>
#include <limits>

#include "ops/activation/activation_ops.h"
#include "ops/array.h"
#include "ops/common/op_rules_impl.h"
#include "ops/common/row_softmax_impl.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/simd/math_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {
namespace {

// The tensor viewed as [outer, n, inner], normalised along n. A task is one index of `outer` and up to kBlock columns
// of `inner`, processed side by side.
struct Columns {
  int64_t outer, n, inner, blocks;
  double temperature;

  explicit Columns(const KernelSpec& spec) {
    const Shape& shape = spec.outputs[0].shape;
    const int axis = *CanonicalAxis(spec.attrs.Int("axis"), shape.rank());
    outer = shape.elements(0, axis);
    n = shape[axis];
    inner = shape.elements(axis + 1, shape.rank());
    blocks = (inner + kBlock - 1) / kBlock;
    temperature = spec.attrs.Float("temperature");
  }

  // Calls body(begin, end) for ranges of rows. REQUIRES: inner is 1.
  template <class Body>
  void ForRows(const Body& body) const {
    ParallelFor(outer, 12.0 * static_cast<double>(n), body);
  }

  // Calls body(offset, width) for each task.
  template <class Body>
  void ForEach(const Body& body) const {
    ParallelFor(outer * blocks, 12.0 * static_cast<double>(n * std::min(inner, kBlock)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t task = begin; task < end; ++task) {
                    const int64_t column = task % blocks * kBlock;
                    body(task / blocks * n * inner + column, std::min(kBlock, inner - column));
                  }
                });
  }
};

// One column per lane: element k of lane j is x[k inner + j].
template <class T, bool log>
void SoftmaxColumns(const Columns& c, const T* x, int64_t width, T* y) {
  using C = Compute<T>;
  const C scale = static_cast<C>(1 / c.temperature);
  alignas(64) C top[kBlock], sum[kBlock], e[kBlock];
  std::fill_n(top, width, -std::numeric_limits<C>::infinity());
  std::fill_n(sum, width, C(0));
  for (int64_t k = 0; k < c.n; ++k) {
    for (int64_t j = 0; j < width; ++j) top[j] = std::max(top[j], static_cast<C>(x[k * c.inner + j]));
  }
  const auto shifted = [&](int64_t k) {
    for (int64_t j = 0; j < width; ++j) e[j] = (static_cast<C>(x[k * c.inner + j]) - top[j]) * scale;
  };
  const auto exponentials = [&] { simd::Map<C>(width, e, e, [](auto v) { return simd::ExpOfNegative(v); }); };
  for (int64_t k = 0; k < c.n; ++k) {
    shifted(k);
    exponentials();
    for (int64_t j = 0; j < width; ++j) sum[j] += e[j];
  }
  for (int64_t j = 0; j < width; ++j) sum[j] = log ? std::log(sum[j]) : 1 / sum[j];
  for (int64_t k = 0; k < c.n; ++k) {
    shifted(k);
    if (!log) exponentials();
    for (int64_t j = 0; j < width; ++j) y[k * c.inner + j] = static_cast<T>(log ? e[j] - sum[j] : e[j] * sum[j]);
  }
}

struct NoVisitor {
  template <class T, class C>
  void Begin(int64_t, const T*, C) {}
  template <class C>
  void Change(int64_t, int64_t, int64_t, C*) {}
  template <class C>
  void End(int64_t, C) {}
};

// `rows` rows, for the case that the axis is the last.
template <class T>
void SoftmaxRows(const Columns& c, const T* x, int64_t rows, T* y) {
  RowSoftmax<T> softmax;
  NoVisitor nothing;
  softmax.Run(x, rows, c.n, static_cast<Compute<T>>(1 / c.temperature), y, nothing);
}
template <class T>
void LogSoftmaxRow(const Columns& c, const T* x, T* y) {
  using C = Compute<T>;
  const C scale = static_cast<C>(1 / c.temperature), top = LargestOfRow(x, c.n);
  C sum = 0;
  ForRowPieces(x, c.n, [&](int64_t, int64_t n, const C* from) { sum += SumOfExponentials(from, n, top, scale); });
  const C log_sum = std::log(sum);
  PieceBuffer<T> results;
  ForRowPieces(x, c.n, [&](int64_t first, int64_t n, const C* from) {
    C* to = results.Target(y + first);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = (from[i] - top) * scale - log_sum;
    results.Write(y + first, n);
  });
}

template <class T, bool log>
absl::StatusOr<Kernel> MakeSoftmax(const KernelSpec& spec) {
  return Kernel{[c = Columns(spec)](const KernelContext& context) {
    const T* x = context.input<T>(0);
    T* y = context.output<T>(0);
    if (c.inner != 1) {
      c.ForEach([&](int64_t offset, int64_t width) { SoftmaxColumns<T, log>(c, x + offset, width, y + offset); });
      return absl::OkStatus();
    }
    c.ForRows([&](int64_t begin, int64_t end) {
      if constexpr (log) {
        for (int64_t row = begin; row < end; ++row) LogSoftmaxRow(c, x + row * c.n, y + row * c.n);
      } else {
        SoftmaxRows(c, x + begin * c.n, end - begin, y + begin * c.n);
      }
    });
    return absl::OkStatus();
  }};
}

// dx = y (dy - sum(dy y)) / temperature; for LogSoftmax, dx = (dy - exp(y) sum(dy)) / temperature.
template <class T, bool log>
void GradOfColumns(const Columns& c, const T* dy, const T* y, int64_t width, T* dx) {
  using C = Compute<T>;
  const C scale = static_cast<C>(1 / c.temperature);
  alignas(64) C sum[kBlock] = {};
  for (int64_t k = 0; k < c.n; ++k) {
    const int64_t row = k * c.inner;
    for (int64_t j = row; j < row + width; ++j)
      sum[j - row] += static_cast<C>(dy[j]) * (log ? C(1) : static_cast<C>(y[j]));
  }
  for (int64_t k = 0; k < c.n; ++k) {
    const int64_t row = k * c.inner;
    for (int64_t j = row; j < row + width; ++j) {
      const C value = static_cast<C>(y[j]), slope = static_cast<C>(dy[j]);
      dx[j] = static_cast<T>(scale * (log ? slope - std::exp(value) * sum[j - row] : value * (slope - sum[j - row])));
    }
  }
}

// The same for one row, if the axis is the last.
template <class T, bool log>
void GradOfRow(const Columns& c, const T* dy, const T* y, T* dx) {
  using C = Compute<T>;
  const C scale = static_cast<C>(1 / c.temperature);
  PieceBuffer<T> value_buffer, slope_buffer;
  const auto pieces = [&](const auto& body) {
    for (int64_t first = 0; first < c.n; first += kRowPiece) {
      const int64_t n = std::min(kRowPiece, c.n - first);
      body(first, n, slope_buffer.Read(dy + first, n), value_buffer.Read(y + first, n));
    }
  };
  C total = 0;
  pieces([&](int64_t, int64_t n, const C* slope, const C* value) {
    total += SimdSum<C>(n, [=](int64_t i) { return log ? slope[i] : slope[i] * value[i]; });
  });
  pieces([&](int64_t first, int64_t n, const C* slope, const C* value) {
    C* to = value_buffer.Target(dx + first);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      to[i] = scale * (log ? slope[i] - simd::ExpOfNegative(value[i]) * total : value[i] * (slope[i] - total));
    }
    value_buffer.Write(dx + first, n);
  });
}

template <class T, bool log>
absl::StatusOr<Kernel> MakeSoftmaxGrad(const KernelSpec& spec) {
  return Kernel{[c = Columns(spec)](const KernelContext& context) {
    const T *dy = context.input<T>(0), *y = context.input<T>(1);
    T* dx = context.output<T>(0);
    if (c.inner != 1) {
      c.ForEach([&](int64_t offset, int64_t width) {
        GradOfColumns<T, log>(c, dy + offset, y + offset, width, dx + offset);
      });
      return absl::OkStatus();
    }
    c.ForRows([&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        GradOfRow<T, log>(c, dy + row * c.n, y + row * c.n, dx + row * c.n);
      }
    });
    return absl::OkStatus();
  }};
}

absl::StatusOr<std::vector<Shape>> SoftmaxShape(const ShapeArgs& args) {
  // Kernels multiply by 1 / temperature in float.
  if (const double temperature = args.attrs.Float("temperature");
      !(temperature > 0) || std::isinf(static_cast<float>(1 / temperature))) {
    return absl::InvalidArgumentError(
        absl::StrCat("temperature must be positive (at least 1e-38), but is ", temperature));
  }
  RETURN_IF_ERROR(CanonicalAxis(args.attrs.Int("axis"), args.inputs[0].rank()).status());
  return SameAsAll(args);
}

// dx = (y dy - y sum(y dy)) / temperature of Softmax, whose derivative by dy is symmetric, and
// (dy - exp(y) sum(dy)) / temperature of LogSoftmax.
std::vector<Output> SoftmaxSecondGradient(const Scope& scope, const Node& node, Output g) {
  const Output dy = node.input(0), y = node.input(1);
  const int64_t axis = node.attrs().Int("axis");
  const double share = 1 / node.attrs().Float("temperature");
  const auto sum = [&](Output x) { return Sum(scope, x, {axis}, /*keep_dims=*/true); };
  if (node.op().name == "SoftmaxGrad") {
    const Output of_dy =
        scope.Add("SoftmaxGrad", {g, y}, {{"axis", axis}, {"temperature", node.attrs().Float("temperature")}});
    const Output of_y =
        Sub(scope, Mul(scope, g, Sub(scope, dy, sum(Mul(scope, dy, y)))), Mul(scope, dy, sum(Mul(scope, g, y))));
    return {of_dy, Mul(scope, share, of_y)};
  }
  const Output p = Exp(scope, y), scaled = Mul(scope, share, g);
  return {Sub(scope, scaled, sum(Mul(scope, scaled, p))), Neg(scope, Mul(scope, Mul(scope, scaled, p), sum(dy)))};
}

template <bool log>
void Register(OpRegistry& registry, const std::string& name) {
  const std::vector<AttrDef> attrs = {{"axis", int64_t{-1}}, {"temperature", 1.0}};
  registry.Add({.name = name,
                .inputs = {{"logits"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = SoftmaxShape,
                .gradient = GradientFrom(name + "Grad", /*from_output=*/true, {"axis", "temperature"}),
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeSoftmax<typename decltype(tag)::type, log>; })});
  registry.Add({.name = name + "Grad",
                .inputs = {{"dy"}, {"y"}},
                .outputs = {{"dx"}},
                .types = {{"T", kFloatTypes}},
                .attrs = attrs,
                .shape = SoftmaxShape,
                .gradient = [](const Scope& scope, const Node& node,
                               absl::Span<const Output> g) { return SoftmaxSecondGradient(scope, node, g[0]); },
                .in_place = {{0, 0}, {1, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeSoftmaxGrad<typename decltype(tag)::type, log>; })});
}

}  // namespace

Output Softmax(OpScope scope, Output logits, const SoftmaxOptions& options) {
  return scope.Add("Softmax", {logits}, {{"axis", options.axis}, {"temperature", options.temperature}});
}
Output LogSoftmax(OpScope scope, Output logits, const SoftmaxOptions& options) {
  return scope.Add("LogSoftmax", {logits}, {{"axis", options.axis}, {"temperature", options.temperature}});
}

void RegisterSoftmax(OpRegistry& registry) {
  Register<false>(registry, "Softmax");
  Register<true>(registry, "LogSoftmax");
}

}  // namespace belfry::ops
