#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/import/importer_impl.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::onnx {
namespace {

using ops::Axes;

Output ReduceBy(absl::string_view op, const Scope& s, Output x, const Axes& axes, bool keep) {
  if (op == "ReduceSum") return ops::Sum(s, x, axes, keep);
  if (op == "ReduceMean") return ops::Mean(s, x, axes, keep);
  if (op == "ReduceMax") return ops::Max(s, x, axes, keep);
  if (op == "ReduceMin") return ops::Min(s, x, axes, keep);
  if (op == "ReduceProd") return ops::Prod(s, x, axes, keep);
  if (op == "ReduceL1") return ops::Sum(s, ops::Abs(s, x), axes, keep);
  if (op == "ReduceL2") return ops::Norm(s, x, axes, keep);
  if (op == "ReduceSumSquare") return ops::Sum(s, ops::Square(s, x), axes, keep);
  if (op == "ReduceLogSum") return ops::Log(s, ops::Sum(s, x, axes, keep));
  return ops::LogSumExp(s, x, axes, keep);
}

// The number of elements of a shape, as the product of its extents.
bool ReduceExtents(Importer& to) {
  if (!to.IsComputedExtents(0) || to.rule().op != "ReduceProd") return false;
  MaybeExtent product = ops::Extent(1);
  const std::optional<ExtentList> extents = to.ExtentsIn(0);
  for (const MaybeExtent& extent : extents->list) {
    if (!product || !extent) {
      product = std::nullopt;
    } else if (!extent->taken()) {
      product =
          product->taken() ? *product * extent->size() : ops::Extent(MultiplyExtents(product->size(), extent->size()));
    } else {
      product = product->taken() ? MaybeExtent() : *extent * product->size();
    }
  }
  to.OutExtents({.list = {product}, .scalar = to.Int("keepdims", 1) == 0});
  return true;
}

absl::Status Reduce(Importer& to) {
  if (ReduceExtents(to)) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::vector<int64_t> axes, to.IntsOf("axes", 1));
  const int rank = to.ShapeOf(0).rank();
  const bool keep = to.Int("keepdims", 1) != 0;
  if (axes.empty()) {
    if (to.Int("noop_with_empty_axes", 0) != 0) {
      to.SameAs(0);
      return absl::OkStatus();
    }
    for (int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  std::vector<bool> reduced(static_cast<size_t>(rank));
  for (int64_t& axis : axes) {
    ASSIGN_OR_RETURN(axis, AxisIn(Order::kOnnx, axis, rank));
    reduced[static_cast<size_t>(axis)] = true;
  }
  // Without the reduced axes, the order of the others must be that of ONNX.
  const bool images = to.IsChannelsLast(0) && (keep || reduced[1] || (reduced[2] && reduced[3]));
  const Order order = images ? Order::kChannelsLast : Order::kOnnx;
  for (int64_t& axis : axes) axis = images ? kChannelsLastAxis[axis] : axis;
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  to.Out(ReduceBy(to.rule().op, to.scope(), to.In(0, order), axes, keep), keep ? order : Order::kOnnx);
  return absl::OkStatus();
}

absl::Status ArgExtreme(Importer& to) {
  if (to.Int("select_last_index", 0) != 0) return absl::UnimplementedError("select_last_index is not covered");
  const Output x = to.In(0);
  if (!x.valid()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t axis, AxisIn(Order::kOnnx, to.Int("axis", 0), x.shape().rank()));
  Output index = to.rule().op == "ArgMax" ? ops::ArgMax(to.scope(), x, static_cast<int>(axis))
                                          : ops::ArgMin(to.scope(), x, static_cast<int>(axis));
  if (to.Int("keepdims", 1) != 0) index = ops::ExpandDims(to.scope(), index, axis);
  to.Out(index);
  return absl::OkStatus();
}

constexpr ImportRule kReductions[] = {
    {"ReduceSum", Reduce},    {"ReduceMean", Reduce},      {"ReduceMax", Reduce},  {"ReduceMin", Reduce},
    {"ReduceProd", Reduce},   {"ReduceL1", Reduce},        {"ReduceL2", Reduce},   {"ReduceSumSquare", Reduce},
    {"ReduceLogSum", Reduce}, {"ReduceLogSumExp", Reduce}, {"ArgMax", ArgExtreme}, {"ArgMin", ArgExtreme},
};

}  // namespace

absl::Span<const ImportRule> ReductionImports() { return kReductions; }

}  // namespace belfry::onnx
