#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/import/importer_impl.h"
#include "ops/array.h"

namespace belfry::onnx {
namespace {

// A vector of extents as another vector, or as a scalar.
absl::Status ReshapeExtents(Importer& to, bool scalar) {
  ExtentList extents = *to.ExtentsIn(0);
  if (scalar && extents.list.size() != 1) return absl::InvalidArgumentError("a scalar has one element");
  extents.scalar = scalar;
  to.OutExtents(std::move(extents));
  return absl::OkStatus();
}

// Extents of which one at most is inferred: the only open one, as this needs no other tensor.
absl::StatusOr<ops::Extents> Settle(std::vector<MaybeExtent> wanted) {
  std::vector<ops::Extent> extents;
  int64_t inferred = 0, open = 0, zeros = 0;
  for (const MaybeExtent& extent : wanted) {
    extents.push_back(extent.value_or(ops::Extent(Shape::kUnknown)));
    const bool taken = extents.back().taken() && extents.back().size() == Shape::kUnknown;
    open += taken ? 1 : 0;
    inferred += !extents.back().taken() && extents.back().size() == Shape::kUnknown ? 1 : 0;
    zeros += extents.back().size() == 0 ? 1 : 0;
    if (extents.back().size() < Shape::kUnknown) return absl::InvalidArgumentError("an extent is below -1");
  }
  if (inferred > 1) return absl::UnimplementedError("two extents are to be inferred, or functions of open ones");
  for (ops::Extent& extent : extents) {
    if (open == 1 && inferred == 0 && zeros == 0 && extent.taken() && extent.size() == Shape::kUnknown) {
      extent = Shape::kUnknown;
    }
  }
  return ops::Extents(std::move(extents));
}

absl::Status Reshape(Importer& to) {
  std::optional<ExtentList> wanted;
  if (to.Attribute("shape") != nullptr) {
    wanted.emplace();
    for (const int64_t extent : to.Ints("shape")) wanted->list.emplace_back(extent);
  } else {
    wanted = to.ExtentsIn(1);
  }
  if (!wanted) return absl::UnimplementedError("its shape depends on elements of tensors");
  if (to.IsComputedExtents(0) && wanted->list.size() <= 1) return ReshapeExtents(to, wanted->list.empty());
  const int rank = to.ShapeOf(0).rank();
  for (size_t i = 0; i < wanted->list.size(); ++i) {
    MaybeExtent& extent = wanted->list[i];
    if (!extent || extent->taken() || extent->size() != 0 || to.Int("allowzero", 0) != 0) continue;
    if (static_cast<int>(i) >= rank) return absl::InvalidArgumentError(absl::StrCat("its input has no axis ", i));
    extent = to.ExtentOf(0, static_cast<int64_t>(i));
  }
  ASSIGN_OR_RETURN(const ops::Extents extents, Settle(std::move(wanted->list)));
  to.Out(ops::Reshape(to.scope(), to.In(0), extents));
  return absl::OkStatus();
}

absl::Status Flatten(Importer& to) {
  const Shape shape = to.ShapeOf(0);
  const int64_t given = to.Int("axis", 1), axis = given < 0 ? given + shape.rank() : given;
  if (axis < 0 || axis > shape.rank()) return absl::InvalidArgumentError(absl::StrCat("its input has no axis ", given));
  const Scope& scope = to.scope();
  const Output x = to.In(0);
  if (!x.valid()) return absl::OkStatus();
  const auto rank = shape.rank(), split = static_cast<int>(axis);
  const bool tail_known = Shape(shape.dims().subspan(static_cast<size_t>(split))).known();
  if (tail_known && shape.elements(split, rank) > 0) {
    const int64_t tail = shape.elements(split, rank);
    to.Out(ops::Reshape(scope, x, Shape({split == 0 ? 1 : -1, tail})));
    return absl::OkStatus();
  }
  if (split == 0) return to.Out(ops::Reshape(scope, x, Shape({1, -1}))), absl::OkStatus();
  Output y = split < rank ? ops::MergeAxes(scope, x, split, rank - 1) : ops::ExpandDims(scope, x, -1);
  to.Out(ops::MergeAxes(scope, y, 0, split - 1));
  return absl::OkStatus();
}

absl::Status Squeeze(Importer& to) {
  ASSIGN_OR_RETURN(std::vector<int64_t> axes, to.IntsOf("axes", 1));
  if (to.IsComputedExtents(0)) return ReshapeExtents(to, true);
  if (axes.empty()) {
    to.Out(ops::Squeeze(to.scope(), to.In(0)));
    return absl::OkStatus();
  }
  const bool last = to.IsChannelsLast(0);
  bool pixels = axes.size() == 2 && last;  // [N, C, 1, 1] to [N, C]
  for (int64_t& axis : axes) {
    ASSIGN_OR_RETURN(axis, AxisIn(Order::kOnnx, axis, to.ShapeOf(0).rank()));
    pixels = pixels && axis >= 2;
  }
  to.Out(pixels ? ops::Squeeze(to.scope(), to.In(0, Order::kChannelsLast), {1, 2})
                : ops::Squeeze(to.scope(), to.In(0), axes));
  return absl::OkStatus();
}

absl::Status Unsqueeze(Importer& to) {
  ASSIGN_OR_RETURN(std::vector<int64_t> axes, to.IntsOf("axes", 1));
  if (to.IsComputedExtents(0) && to.ExtentsIn(0)->scalar && axes.size() == 1) return ReshapeExtents(to, false);
  const Shape shape = to.ShapeOf(0);
  if (axes.size() > kMaxRank || shape.rank() > kMaxRank) return absl::UnimplementedError("it has more than 64 axes");
  const int rank = shape.rank() + static_cast<int>(axes.size());
  for (int64_t& axis : axes) {
    ASSIGN_OR_RETURN(axis, AxisIn(Order::kOnnx, axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return absl::InvalidArgumentError("an axis is twice");
  Output y = to.In(0);
  for (const int64_t axis : axes) y = ops::ExpandDims(to.scope(), y, axis);
  to.Out(y);
  return absl::OkStatus();
}

absl::Status Transpose(Importer& to) {
  const int rank = to.ShapeOf(0).rank();
  std::vector<int64_t> perm = to.Ints("perm");
  if (to.Attribute("perm") == nullptr) {
    perm.resize(static_cast<size_t>(rank));
    std::iota(perm.rbegin(), perm.rend(), int64_t{0});
  }
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < rank; ++i) {
    if (static_cast<int>(perm.size()) != rank || sorted[static_cast<size_t>(i)] != i) {
      return absl::InvalidArgumentError("perm does not name each axis once");
    }
  }
  const bool last = to.IsChannelsLast(0);
  if (to.IsParameter(0)) {
    to.Out(to.Parameter(0, perm));
  } else if (last && perm == std::vector<int64_t>{0, 2, 3, 1}) {
    to.Out(to.In(0, Order::kChannelsLast));
  } else if (!last && perm == std::vector<int64_t>{0, 3, 1, 2}) {
    to.Out(to.In(0), Order::kChannelsLast);
  } else {
    for (int64_t& axis : perm) axis = last ? kChannelsLastAxis[axis] : axis;
    to.Out(ops::Transpose(to.scope(), to.In(0, last ? Order::kChannelsLast : Order::kOnnx), perm));
  }
  return absl::OkStatus();
}

bool AnyExtents(Importer& to) {
  for (int i = 0; i < to.InputCount(); ++i) {
    if (to.IsComputedExtents(i)) return true;
  }
  return false;
}

absl::Status Concat(Importer& to) {
  if (AnyExtents(to)) {
    ExtentList all;
    bool ok = true;
    for (int i = 0; i < to.InputCount() && ok; ++i) {
      const std::optional<ExtentList> part = to.ExtentsIn(i);
      ok = part && !part->scalar;
      if (ok) all.dtype = part->dtype;
      if (ok) all.list.insert(all.list.end(), part->list.begin(), part->list.end());
    }
    if (ok) return to.OutExtents(std::move(all)), absl::OkStatus();
  }
  if (to.InputCount() == 0) return absl::InvalidArgumentError("has no inputs");
  const Order order = to.ResultOrder();
  ASSIGN_OR_RETURN(const int64_t axis, AxisIn(order, to.Int("axis", 1), to.ShapeOf(0).rank()));
  std::vector<Output> parts;
  for (int i = 0; i < to.InputCount(); ++i) parts.push_back(to.In(i, order));
  to.Out(parts.size() == 1 ? parts[0] : ops::Concat(to.scope(), parts, axis), order);
  return absl::OkStatus();
}

absl::Status Tile(Importer& to) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> multiples, to.KnownInts(1));
  to.Out(ops::Tile(to.scope(), to.In(0), multiples));
  return absl::OkStatus();
}

// ONNX's DepthToSpace has two orders of channels; CRD keeps the pixels of a channel together.
absl::Status DepthToSpace(Importer& to) {
  const Scope& scope = to.scope();
  const int64_t block = to.Int("blocksize", 0);
  Output x = to.In(0, Order::kChannelsLast);
  if (!x.valid()) return absl::OkStatus();
  const int64_t channels = x.shape()[3];
  if (block < 1 || block > 1 << 15 || channels == Shape::kUnknown || channels % (block * block) != 0) {
    return absl::InvalidArgumentError("its blocksize does not divide the channels");
  }
  if (to.String("mode", "DCR") == "CRD") {
    const auto extent = [&](int axis) { return ops::Extent::Of(x, axis); };
    const ops::Extents split = {extent(0), extent(1), extent(2), channels / (block * block), block * block};
    x = ops::Transpose(scope, ops::Reshape(scope, x, split), {0, 1, 2, 4, 3});
    x = ops::MergeAxes(scope, x, 3, 4);
  }
  to.Out(ops::DepthToSpace(scope, x, block), Order::kChannelsLast);
  return absl::OkStatus();
}

absl::Status SpaceToDepth(Importer& to) {
  if (to.String("mode", "DCR") != "DCR") return absl::UnimplementedError("its mode is not DCR");
  to.Out(ops::SpaceToDepth(to.scope(), to.In(0, Order::kChannelsLast), to.Int("blocksize", 1)), Order::kChannelsLast);
  return absl::OkStatus();
}

constexpr ImportRule kArrays[] = {
    {"Reshape", Reshape},     {"Flatten", Flatten},           {"Squeeze", Squeeze},
    {"Unsqueeze", Unsqueeze}, {"Transpose", Transpose},       {"Concat", Concat},
    {"Tile", Tile},           {"DepthToSpace", DepthToSpace}, {"SpaceToDepth", SpaceToDepth},
};

}  // namespace

absl::Span<const ImportRule> ArrayImports() { return kArrays; }

}  // namespace belfry::onnx
