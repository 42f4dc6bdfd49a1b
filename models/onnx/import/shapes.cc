// Shapes as values: what models compute of extents is computed while the graph is built.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/import/importer_impl.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::onnx {
namespace {

absl::Status ShapeValue(Importer& to) {
  const int64_t rank = to.ShapeOf(0).rank();
  const auto bound = [&](int64_t value) { return std::clamp(value < 0 ? value + rank : value, int64_t{0}, rank); };
  const int64_t start = bound(to.Int("start", 0)), end = bound(to.Int("end", rank));
  ExtentList extents;
  for (int64_t axis = start; axis < end; ++axis) extents.list.emplace_back(to.ExtentOf(0, axis));
  to.OutExtents(std::move(extents));
  return absl::OkStatus();
}

absl::Status Size(Importer& to) {
  MaybeExtent product = ops::Extent(1);
  for (int64_t axis = 0; axis < to.ShapeOf(0).rank() && product; ++axis) {
    const ops::Extent extent = to.ExtentOf(0, axis);
    if (!extent.taken()) {
      product =
          product->taken() ? *product * extent.size() : ops::Extent(MultiplyExtents(product->size(), extent.size()));
    } else if (product->taken()) {
      product = std::nullopt;
    } else {
      product = extent * product->size();
    }
  }
  to.OutExtents({.list = {product}, .scalar = true});
  return absl::OkStatus();
}

absl::Status ConstantValue(Importer& to) {
  for (const AttributeProto& attribute : to.node().attribute()) {
    const std::string& name = attribute.name();
    if (name == "value_int") return to.Out(ops::Const<int64_t>(to.scope(), attribute.i())), absl::OkStatus();
    if (name == "value_float") return to.Out(ops::Const<float>(to.scope(), attribute.f())), absl::OkStatus();
    if (name == "value_ints") {
      const std::vector<int64_t> ints(attribute.ints().begin(), attribute.ints().end());
      const auto n = static_cast<int64_t>(ints.size());
      return to.Out(ops::Const(to.scope(), Tensor::Of<int64_t>(absl::MakeConstSpan(ints), {n}))), absl::OkStatus();
    }
    if (name == "value_floats") {
      const std::vector<float> floats(attribute.floats().begin(), attribute.floats().end());
      const auto n = static_cast<int64_t>(floats.size());
      return to.Out(ops::Const(to.scope(), Tensor::Of<float>(absl::MakeConstSpan(floats), {n}))), absl::OkStatus();
    }
    if (name != "value") continue;
    ASSIGN_OR_RETURN(const Tensor tensor, to.tensors().Read(attribute.t()));
    to.Out(ops::Const(to.scope(), tensor));
    return absl::OkStatus();
  }
  return absl::UnimplementedError("it has neither a tensor nor numbers");
}

// The extents of input i, as far as ops of ours can have them.
absl::StatusOr<ops::Extents> RequireExtents(Importer& to, int i) {
  const std::optional<ExtentList> extents = to.ExtentsIn(i);
  if (!extents) return absl::UnimplementedError(absl::StrCat("input ", i, ", a shape, depends on elements of tensors"));
  std::vector<ops::Extent> list;
  for (const MaybeExtent& extent : extents->list) {
    if (!extent) return absl::UnimplementedError("an extent is a function of several open ones");
    if (!extent->taken() && extent->size() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("an extent is ", extent->size()));
    }
    list.push_back(*extent);
  }
  return ops::Extents(std::move(list));
}

// x broadcast to the shape that it and `extents` broadcast to.
Output Broadcast(const Scope& scope, Output x, const ops::Extents& extents) {
  if (!x.valid()) return x;
  if (extents.list().empty()) return x;
  std::vector<ops::Extent> list = extents.list();
  const auto rank = static_cast<int>(list.size()), have = x.shape().rank();
  for (int axis = 0; axis < std::min(rank, have); ++axis) {
    const int64_t size = x.shape()[have - 1 - axis];
    ops::Extent& wanted = list[static_cast<size_t>(rank - 1 - axis)];
    if (!wanted.taken() && wanted.size() == 1 && size != 1) {
      wanted = size == Shape::kUnknown ? ops::Extent::Of(x, have - 1 - axis) : ops::Extent(size);
    }
  }
  for (int axis = have - rank - 1; axis >= 0; --axis) {
    list.insert(list.begin(), x.shape()[axis] == Shape::kUnknown ? ops::Extent::Of(x, axis) : x.shape()[axis]);
  }
  const ops::Extents all(std::move(list));
  return all.settled() ? ops::BroadcastTo(scope, x, all.shape()) : ops::BroadcastLike(scope, x, ZerosOf(scope, all));
}

absl::Status Expand(Importer& to) {
  ASSIGN_OR_RETURN(const ops::Extents extents, RequireExtents(to, 1));
  to.Out(Broadcast(to.scope(), to.In(0), extents));
  return absl::OkStatus();
}

absl::Status ConstantOfShape(Importer& to) {
  Tensor value = Tensor::Scalar<float>(0);
  if (const AttributeProto* const attribute = to.Attribute("value")) {
    ASSIGN_OR_RETURN(value, to.tensors().Read(attribute->t()));
    if (value.elements() != 1) return absl::InvalidArgumentError("its value is not one number");
    value = value.Reshaped({});
  }
  ASSIGN_OR_RETURN(const ops::Extents extents, RequireExtents(to, 0));
  to.Out(Broadcast(to.scope(), ops::Const(to.scope(), value), extents));
  return absl::OkStatus();
}

absl::Status RangeValue(Importer& to) {
  const DType dtype = to.TypeOf(1);
  const bool open = to.IsComputedExtents(1) || to.IsComputedExtents(0);
  if (!open) {
    ASSIGN_OR_RETURN(const double start, to.KnownNumber(0));
    ASSIGN_OR_RETURN(const double limit, to.KnownNumber(1));
    ASSIGN_OR_RETURN(const double delta, to.KnownNumber(2));
    to.Out(ops::Range(to.scope(), start, limit, delta, dtype));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const double start, to.KnownNumber(0));
  ASSIGN_OR_RETURN(const double delta, to.KnownNumber(2));
  ASSIGN_OR_RETURN(const ops::Extents limit, RequireExtents(to, 1));
  if (delta != 1 || start != 0 || limit.list().size() != 1) {
    return absl::UnimplementedError("up to an open extent, only steps of 1 from 0 are covered");
  }
  to.Out(CountTo(to.scope(), limit.list()[0]));
  return absl::OkStatus();
}

absl::Status EyeLike(Importer& to) {
  const Shape shape = to.ShapeOf(0);
  if (shape.rank() != 2 || !shape.known()) return absl::UnimplementedError("its shape is open");
  DType dtype = to.TypeOf(0);
  if (to.Attribute("dtype") != nullptr) {
    ASSIGN_OR_RETURN(dtype, RequireDType(static_cast<int32_t>(to.Int("dtype", 0))));
  }
  const Output columns = ops::Range(to.scope(), 0, static_cast<double>(shape[1]), 1, DType::kInt64);
  const Output rows = ops::Range(to.scope(), 0, static_cast<double>(shape[0]), 1, DType::kInt64);
  const Output shifted = ops::Add(to.scope(), rows, ops::Const<int64_t>(to.scope(), to.Int("k", 0)));
  to.Out(ops::Cast(to.scope(), ops::Equal(to.scope(), ops::ExpandDims(to.scope(), shifted, 1), columns), dtype));
  return absl::OkStatus();
}

// The numbers [0, n) of the rows or columns of x.
Output CountAxis(const Scope& scope, Output x, int axis) {
  const int64_t size = x.shape()[axis];
  if (size == Shape::kUnknown) return CountTo(scope, ops::Extent::Of(x, axis + x.shape().rank()));
  return CountTo(scope, size);
}

// Elements above or below a diagonal become 0.
absl::Status Trilu(Importer& to) {
  int64_t diagonal = 0;
  if (to.Has(1)) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, to.KnownInts(1));
    if (numbers.size() != 1) return absl::InvalidArgumentError("k is not one number");
    diagonal = numbers[0];
  }
  const Output x = to.In(0);
  if (!x.valid()) return absl::OkStatus();
  if (x.shape().rank() < 2) return absl::InvalidArgumentError("its input is no matrix");
  const Scope& scope = to.scope();
  const Output rows = ops::ExpandDims(scope, CountAxis(scope, x, -2), 1), columns = CountAxis(scope, x, -1);
  const Output shifted = ops::Add(scope, rows, ops::Const<int64_t>(scope, diagonal));
  const Output kept =
      to.Int("upper", 1) != 0 ? ops::GreaterEqual(scope, columns, shifted) : ops::LessEqual(scope, columns, shifted);
  to.Out(ops::Select(scope, kept, x, NumberOf(scope, 0, x.dtype())));
  return absl::OkStatus();
}

constexpr ImportRule kShapes[] = {
    {"Shape", ShapeValue}, {"Size", Size},        {"Constant", ConstantValue}, {"ConstantOfShape", ConstantOfShape},
    {"Expand", Expand},    {"Range", RangeValue}, {"EyeLike", EyeLike},        {"Trilu", Trilu},
};

}  // namespace

Output CountTo(const Scope& scope, const ops::Extent& extent) {
  if (extent.size() != Shape::kUnknown) {
    return ops::Range(scope, 0, static_cast<double>(extent.size()), 1, DType::kInt64);
  }
  const Output ones = ops::OnesLike(scope, ops::Cast(scope, ZerosOf(scope, {extent}), DType::kInt64));
  return ops::Cumsum(scope, ones, 0, {.exclusive = true});
}

absl::Span<const ImportRule> ShapeImports() { return kShapes; }

}  // namespace belfry::onnx
