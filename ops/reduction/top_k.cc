#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/common/index_type_impl.h"
#include "ops/elementwise/define_impl.h"
#include "ops/math.h"
#include "ops/reduction/reduction_ops.h"

namespace belfry::ops {
namespace {

// The order of the results: NaN first, then larger values, equal values by index.
template <class T>
struct Before {
  const T* x;
  bool operator()(int32_t i, int32_t j) const {
    const auto a = static_cast<Compute<T>>(x[i]), b = static_cast<Compute<T>>(x[j]);
    const bool a_nan = a != a, b_nan = b != b;
    if (a_nan != b_nan) return a_nan;
    if (a_nan || a == b) return i < j;
    return a > b;
  }
};

// Writes the indices of the first k of n elements, in order. Uses a heap of k, whose top is the last of those kept.
template <class T>
void SelectTop(const T* x, int64_t n, int32_t* index, int64_t k) {
  if (k == 0) return;
  const Before<T> before{x};
  for (int64_t i = 0; i < k; ++i) index[i] = static_cast<int32_t>(i);
  std::make_heap(index, index + k, before);
  for (int64_t i = k; i < n; ++i) {
    if (!before(static_cast<int32_t>(i), index[0])) continue;
    std::pop_heap(index, index + k, before);
    index[k - 1] = static_cast<int32_t>(i);
    std::push_heap(index, index + k, before);
  }
  std::sort_heap(index, index + k, before);
}

template <class T>
absl::StatusOr<Kernel> MakeTopK(const KernelSpec& spec) {
  const int64_t n = spec.inputs[0].shape[-1], k = spec.outputs[0].shape[-1];
  const int64_t rows = spec.inputs[0].shape.elements(0, spec.inputs[0].shape.rank() - 1);
  return Kernel{[=](const KernelContext& context) {
    const T* x = context.input<T>(0);
    T* values = context.output<T>(0);
    int32_t* indices = context.output<int32_t>(1);
    ParallelFor(rows, 2 * static_cast<double>(n), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        SelectTop(x + row * n, n, indices + row * k, k);
        for (int64_t i = 0; i < k; ++i) values[row * k + i] = x[row * n + indices[row * k + i]];
      }
    });
    return absl::OkStatus();
  }};
}

absl::StatusOr<std::vector<Shape>> TopKShape(const ShapeArgs& args) {
  const int64_t k = args.attrs.Int("k");
  Shape shape = args.inputs[0];
  if (shape.rank() == 0) return absl::InvalidArgumentError("needs a tensor of rank 1 or more");
  if (k < 0 || (shape[-1] != Shape::kUnknown && k > shape[-1])) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot take the ", k, " largest of the last axis of ", shape.ToString()));
  }
  shape.set_dim(shape.rank() - 1, k);
  return std::vector<Shape>{shape, shape};
}

// Inputs: dy, indices, x (shape only).
template <class T>
absl::StatusOr<Kernel> MakeTopKGrad(const KernelSpec& spec) {
  const int64_t elements = spec.outputs[0].shape.elements();
  const int64_t n = spec.outputs[0].shape[-1], k = spec.inputs[0].shape[-1];
  return Kernel{[=](const KernelContext& context) {
    const T* dy = context.input<T>(0);
    const int32_t* indices = context.input<int32_t>(1);
    T* dx = context.output<T>(0);
    std::fill(dx, dx + elements, T(0));
    for (int64_t row = 0; row * n < elements; ++row) {
      for (int64_t i = row * k; i < (row + 1) * k; ++i) dx[row * n + indices[i]] = dy[i];
    }
    return absl::OkStatus();
  }};
}

std::vector<Output> TopKGradGradient(const Scope& scope, const Node& node, absl::Span<const Output> ddx) {
  const Output dy = node.input(0), indices = node.input(1);
  const int rank = dy.shape().rank();
  if (rank == 1) return {Gather(scope, ddx[0], indices), Output(), Output()};
  const Output columns = MergeAxes(scope, indices, 0, rank - 2);
  const Output rows = Cumsum(scope, OnesLike(scope, columns), 0, {.exclusive = true});
  const Output values = GatherND(scope, MergeAxes(scope, ddx[0], 0, rank - 2), Stack(scope, {rows, columns}, -1));
  return {ReshapeLike(scope, values, dy), Output(), Output()};
}

template <class T, class Index>
Kernel InTopKKernel(int64_t rows, int64_t classes, int64_t k) {
  return Kernel{[=](const KernelContext& context) {
    const T* x = context.input<T>(0);
    const Index* targets = context.input<Index>(1);
    bool* y = context.output<bool>(0);
    for (int64_t row = 0; row < rows; ++row, x += classes) {
      y[row] = false;
      if (targets[row] < 0 || targets[row] >= classes) continue;
      const auto target = static_cast<Compute<T>>(x[targets[row]]);
      int64_t larger = 0;
      bool finite = std::isfinite(target);
      for (int64_t i = 0; i < classes && finite; ++i) {
        const auto value = static_cast<Compute<T>>(x[i]);
        finite = std::isfinite(value);
        larger += value > target ? 1 : 0;
      }
      y[row] = finite && larger < k;
    }
    return absl::OkStatus();
  }};
}

template <class T>
absl::StatusOr<Kernel> MakeInTopK(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  const int64_t k = spec.attrs.Int("k");
  return WithIndexType(spec.inputs[1].dtype,
                       [&](auto index) { return InTopKKernel<T, decltype(index)>(x[0], x[1], k); });
}

absl::StatusOr<std::vector<Shape>> InTopKShape(const ShapeArgs& args) {
  const Shape &x = args.inputs[0], &targets = args.inputs[1];
  if (x.rank() != 2 || targets.rank() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("needs predictions [N, C] and targets [N], but was given ",
                                                   x.ToString(), " and ", targets.ToString()));
  }
  ASSIGN_OR_RETURN(const Shape shape, targets.Merge(Shape{x[0]}));
  return std::vector<Shape>{shape};
}

}  // namespace

TopKOutputs TopK(OpScope scope, Output x, int64_t k) {
  const std::vector<Output> outputs = scope.AddAll("TopK", {x}, {{"k", k}});
  return outputs.empty() ? TopKOutputs() : TopKOutputs{outputs[0], outputs[1]};
}
Output InTopK(OpScope scope, Output predictions, Output targets, int64_t k) {
  return scope.Add("InTopK", {predictions, targets}, {{"k", k}});
}

void RegisterTopK(OpRegistry& registry) {
  registry.Add({.name = "TopK",
                .inputs = {{.name = "x"}},
                .outputs = {{.name = "values"}, {.name = "indices", .type = "int32"}},
                .types = {{"T", kNumericTypes}},
                .attrs = {{"k", int64_t{1}, true}},
                .shape = TopKShape,
                .gradient =
                    [](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
                      if (!dy[0].valid()) return std::vector<Output>{Output()};
                      return std::vector<Output>{scope.Add("TopKGrad", {dy[0], node.output(1), node.input(0)})};
                    },
                .kernels = Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
                    "CPU", [](auto tag) { return &MakeTopK<typename decltype(tag)::type>; })});
  registry.Add({.name = "TopKGrad",
                .inputs = {{.name = "dy"}, {.name = "indices", .type = "int32"}, {.name = "x", .shape_only = true}},
                .outputs = {{.name = "dx"}},
                .types = {{"T", kFloatTypes}},
                .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
                  return std::vector<Shape>{args.inputs[2]};
                },
                .gradient = TopKGradGradient,
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeTopKGrad<typename decltype(tag)::type>; })});
  registry.Add({.name = "InTopK",
                .inputs = {{.name = "predictions"}, {.name = "targets", .type = "Targets"}},
                .outputs = {{.name = "in_top_k", .type = "bool"}},
                .types = {{"T", kFloatTypes}, {"Targets", kIndexTypes}},
                .attrs = {{"k", int64_t{1}, true}},
                .shape = InTopKShape,
                .not_differentiable = true,
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeInTopK<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
