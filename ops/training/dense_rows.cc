#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/common/index_type_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/training.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> DenseRowsShape(const ShapeArgs& args) {
  const Shape &rows = args.inputs[0], &indices = args.inputs[1];
  const int64_t count = args.attrs.Int("rows");
  if (rows.rank() < 1 || indices.rank() != 1 || !Shape{rows[0]}.CompatibleWith(indices) || count < 0) {
    return absl::InvalidArgumentError(absl::StrCat("'values' has shape ", rows.ToString(), ", 'indices' ",
                                                   indices.ToString(), " and 'rows' is ", count,
                                                   "; expected [K, ...], [K] and a number of rows"));
  }
  return std::vector<Shape>{rows.Remove(0).Insert(0, count), Shape{count}};
}

template <class T, class Index>
absl::StatusOr<Kernel> DenseRowsKernel(const UpdateRows& rows) {
  return Kernel{[rows](const KernelContext& context) {
    const T* from = context.input<T>(0);
    const Index* indices = context.input<Index>(1);
    T* to = context.output<T>(0);
    auto* touched = context.output<float>(1);
    for (int64_t k = 0; k < rows.count; ++k) RETURN_IF_ERROR(CheckRow(indices[k], k, rows));
    std::fill_n(touched, rows.rows, 0.f);
    ParallelFor(rows.rows * rows.width, 1, [=](int64_t begin, int64_t end) { std::fill(to + begin, to + end, T(0)); });
    ParallelFor(rows.count, static_cast<double>(rows.width), [=](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        if (indices[k] < 0) continue;
        std::copy_n(from + k * rows.width, rows.width, to + static_cast<int64_t>(indices[k]) * rows.width);
        touched[indices[k]] = 1;
      }
    });
    return absl::OkStatus();
  }};
}

template <class T>
absl::StatusOr<Kernel> MakeDenseRows(const KernelSpec& spec) {
  const Shape& values = spec.inputs[0].shape;
  const UpdateRows rows{values[0], values.elements(1, values.rank()), spec.outputs[1].shape[0]};
  return WithIndexType(spec.inputs[1].dtype, [&](auto index) { return DenseRowsKernel<T, decltype(index)>(rows); });
}

absl::StatusOr<std::vector<Shape>> TouchedIndicesShape(const ShapeArgs& args) {
  const Shape& touched = args.inputs[0];
  const int64_t width = args.attrs.Int("width"), begin = args.attrs.Int("begin"), size = args.attrs.Int("size");
  // The sums below do not overflow, and the last element's row is in [0, V).
  const bool inside = width > 0 && begin >= 0 && size >= 0 && size <= std::numeric_limits<int64_t>::max() - begin;
  const bool known = touched.rank() == 1 && touched[0] != Shape::kUnknown;
  if (inside && touched.rank() == 1 && (!known || size == 0 || (begin + size - 1) / width < touched[0])) {
    return std::vector<Shape>{Shape{size}};
  }
  return absl::InvalidArgumentError(absl::StrCat("elements ", begin, " to ", begin, " + ", size, " of rows of ", width,
                                                 " are not among the rows of 'touched', ", touched.ToString()));
}

absl::StatusOr<Kernel> MakeTouchedIndices(const KernelSpec& spec) {
  const int64_t width = spec.attrs.Int("width"), first = spec.attrs.Int("begin");
  return Kernel{[width, first, size = spec.outputs[0].shape.elements()](const KernelContext& context) {
    const auto* touched = context.input<float>(0);
    auto* indices = context.output<int64_t>(0);
    ParallelFor(size, 4, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) indices[i] = touched[(first + i) / width] > 0 ? i : -1;
    });
    return absl::OkStatus();
  }};
}

constexpr DType kTouchedTypes[] = {DType::kFloat32};

}  // namespace

DenseGradient DenseRows(OpScope scope, const Gradient& sparse, int64_t rows) {
  const std::vector<Output> dense = scope.AddAll("DenseRows", {sparse.value, sparse.indices}, {{"rows", rows}});
  return dense.empty() ? DenseGradient{} : DenseGradient{dense[0], dense[1]};
}

Output TouchedIndices(OpScope scope, Output touched, int64_t width, int64_t begin, int64_t size) {
  return scope.Add("TouchedIndices", {touched}, {{"width", width}, {"begin", begin}, {"size", size}});
}

void RegisterDenseRowsOps(OpRegistry& registry) {
  registry.Add({.name = "DenseRows",
                .inputs = {{.name = "values"}, {.name = "indices", .type = "Tindices"}},
                .outputs = {{.name = "dense"}, {.name = "touched", .type = "float32"}},
                .types = {{"T", kFloatTypes}, {"Tindices", kIndexTypes}},
                .attrs = {{"rows", int64_t{0}, true}},
                .shape = DenseRowsShape,
                .gradient = NoGradient(kOfUpdates),
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeDenseRows<typename decltype(tag)::type>; })});
  registry.Add({.name = "TouchedIndices",
                .inputs = {{.name = "touched"}},
                .outputs = {{.name = "indices", .type = "int64"}},
                .types = {{"T", kTouchedTypes}},
                .attrs = {{"width", int64_t{1}}, {"begin", int64_t{0}}, {"size", int64_t{0}, true}},
                .shape = TouchedIndicesShape,
                .not_differentiable = true,
                .kernels = {{"CPU", DType::kFloat32, &MakeTouchedIndices}}});
}

}  // namespace belfry::ops
