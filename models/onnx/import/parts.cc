#include <algorithm>
#include <numeric>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/import/importer_impl.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/sequence.h"

namespace belfry::onnx {
namespace {

Order OrderOfImages(Importer& to) { return to.IsChannelsLast(0) ? Order::kChannelsLast : Order::kOnnx; }

absl::Status Split(Importer& to) {
  const Order order = OrderOfImages(to);
  const Output x = to.In(0, order);
  if (!x.valid()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t axis, AxisIn(order, to.Int("axis", 0), x.shape().rank()));
  ASSIGN_OR_RETURN(std::vector<int64_t> sizes, to.IntsOf("split", 1));
  const int64_t parts = to.node().output_size(), extent = x.shape()[static_cast<int>(axis)];
  if (sizes.empty() && to.opset() >= 18 && extent > 0 && parts > 0 && extent % parts != 0) {
    const int64_t size = (extent + parts - 1) / parts;  // all but the last are alike
    sizes.assign(static_cast<size_t>(parts), size);
    sizes.back() = extent - size * (parts - 1);
  }
  const std::vector<Output> results =
      sizes.empty() ? ops::Split(to.scope(), x, axis, parts) : ops::Split(to.scope(), x, axis, sizes);
  if (to.scope().status().ok() && static_cast<int64_t>(results.size()) != parts) {
    return absl::InvalidArgumentError("its parts are not as many as its outputs");
  }
  for (size_t k = 0; k < results.size(); ++k) to.Out(results[k], order, static_cast<int>(k));
  return absl::OkStatus();
}

bool Same(const ops::Extent& a, const ops::Extent& b) {
  if (!a.taken() || !b.taken()) return a.taken() == b.taken() && a.size() == b.size();
  return a.tensor() == b.tensor() && a.axis() == b.axis() && a.factor() == b.factor() && a.offset() == b.offset() &&
         a.divisor() == b.divisor();
}

// Bounds of a Slice: for each of its axes a number, or an open extent.
struct Bounds {
  std::vector<MaybeExtent> starts, ends;
  std::vector<int64_t> axes, steps;
};

absl::StatusOr<Bounds> BoundsOf(Importer& to) {
  Bounds bounds;
  const auto list_of = [&](absl::string_view name, int i) -> absl::StatusOr<std::vector<MaybeExtent>> {
    if (to.Attribute(name) == nullptr) {
      const std::optional<ExtentList> extents = to.ExtentsIn(i);
      if (extents) return extents->list;
      return absl::UnimplementedError(absl::StrCat("its ", name, " depend on elements of tensors"));
    }
    std::vector<MaybeExtent> list;
    for (const int64_t number : to.Ints(name)) list.emplace_back(number);
    return list;
  };
  ASSIGN_OR_RETURN(bounds.starts, list_of("starts", 1));
  ASSIGN_OR_RETURN(bounds.ends, list_of("ends", 2));
  const size_t n = bounds.starts.size();
  std::vector<int64_t> all(n);
  std::iota(all.begin(), all.end(), int64_t{0});
  ASSIGN_OR_RETURN(bounds.axes, to.IntsOf("axes", 3, all));
  ASSIGN_OR_RETURN(bounds.steps, to.IntsOf("steps", 4, std::vector<int64_t>(n, 1)));
  if (bounds.ends.size() != n || bounds.axes.size() != n || bounds.steps.size() != n) {
    return absl::InvalidArgumentError("its starts, ends, axes and steps are not equally many");
  }
  return bounds;
}

absl::Status SliceExtents(Importer& to, const Bounds& bounds) {
  const ExtentList extents = *to.ExtentsIn(0);
  const auto n = static_cast<int64_t>(extents.list.size());
  if (bounds.starts.size() != 1 || !bounds.starts[0] || !bounds.ends[0] || bounds.starts[0]->taken() ||
      bounds.ends[0]->taken() || bounds.steps[0] == 0) {
    return absl::UnimplementedError("this slice of a shape is not covered");
  }
  const int64_t step = bounds.steps[0], low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto bound = [&](int64_t value) { return std::clamp(value < 0 ? AddExtents(value, n) : value, low, high); };
  ExtentList result{.dtype = extents.dtype};
  const int64_t start = bound(bounds.starts[0]->size()), end = bound(bounds.ends[0]->size());
  for (int64_t i = start; step > 0 ? i < end : i > end; i = AddExtents(i, step)) {
    result.list.push_back(extents.list[static_cast<size_t>(i)]);
  }
  to.OutExtents(std::move(result));
  return absl::OkStatus();
}

absl::Status Slice(Importer& to) {
  ASSIGN_OR_RETURN(const Bounds bounds, BoundsOf(to));
  if (to.IsComputedExtents(0)) return SliceExtents(to, bounds);
  const Order order = OrderOfImages(to);
  Output x = to.In(0, order);
  if (!x.valid()) return absl::OkStatus();
  const int rank = x.shape().rank();
  std::vector<int64_t> begin(static_cast<size_t>(rank), 0), end(static_cast<size_t>(rank), ops::kSliceEnd),
      strides(static_cast<size_t>(rank), 1);
  for (size_t i = 0; i < bounds.axes.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t axis, AxisIn(order, bounds.axes[i], rank));
    const MaybeExtent &start = bounds.starts[i], &stop = bounds.ends[i];
    if (!start || !stop || start->taken()) return absl::UnimplementedError("a bound is a function of open extents");
    const auto at = static_cast<size_t>(axis);
    strides[at] = bounds.steps[i];
    begin[at] = std::max(start->size(), -ops::kSliceEnd);
    if (!stop->taken()) {
      end[at] = std::max(stop->size(), -ops::kSliceEnd);
      continue;
    }
    if (strides[at] != 1 || begin[at] < 0) return absl::UnimplementedError("a bound is an open extent");
    const bool whole = x.shape()[static_cast<int>(axis)] == Shape::kUnknown && Same(*stop, ops::Extent::Of(x, axis));
    if (whole) continue;
    Output indices = CountTo(to.scope(), *stop - begin[at]);
    if (begin[at] > 0) indices = ops::Add(to.scope(), indices, ops::Const<int64_t>(to.scope(), begin[at]));
    x = ops::Gather(to.scope(), x, indices, axis);
    begin[at] = 0;
  }
  to.Out(ops::StridedSlice(to.scope(), x, begin, end, strides), order);
  return absl::OkStatus();
}

absl::Status Pad(Importer& to) {
  if (to.String("mode", "constant") != "constant") {
    return absl::UnimplementedError(absl::StrCat("mode '", to.String("mode", ""), "' is not covered"));
  }
  const Order order = OrderOfImages(to);
  const Output x = to.In(0, order);
  if (!x.valid()) return absl::OkStatus();
  const auto rank = static_cast<size_t>(x.shape().rank());
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads, to.IntsOf("pads", 1));
  double value = to.Float("value", 0);
  if (to.Has(2)) {
    ASSIGN_OR_RETURN(value, to.KnownNumber(2));
  }
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), int64_t{0});
  if (to.Has(3)) {
    ASSIGN_OR_RETURN(axes, to.KnownInts(3));
  }
  if (pads.size() != 2 * axes.size()) return absl::InvalidArgumentError("its pads are not two for each axis");
  std::vector<ops::AxisPadding> paddings(rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t axis, AxisIn(order, axes[i], static_cast<int>(rank)));
    paddings[static_cast<size_t>(axis)] = {.before = pads[i], .after = pads[i + axes.size()]};
  }
  to.Out(ops::Pad(to.scope(), x, paddings, value), order);
  return absl::OkStatus();
}

absl::Status GatherExtents(Importer& to) {
  ASSIGN_OR_RETURN(const Tensor indices, to.Known(1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, to.KnownInts(1));
  const ExtentList extents = *to.ExtentsIn(0);
  const auto n = static_cast<int64_t>(extents.list.size());
  ExtentList result{.scalar = indices.shape().rank() == 0, .dtype = extents.dtype};
  if (indices.shape().rank() > 1) return absl::UnimplementedError("its indices have several axes");
  for (const int64_t number : numbers) {
    if (number < -n || number >= n) return absl::InvalidArgumentError(absl::StrCat("there is no element ", number));
    result.list.push_back(extents.list[static_cast<size_t>(number < 0 ? number + n : number)]);
  }
  to.OutExtents(std::move(result));
  return absl::OkStatus();
}

// Indices of ONNX count from the end where they are negative. `extents`: of the axes that they index; a scalar, or for
// each along the last axis.
Output FromFront(const Scope& scope, Output indices, Output extents) {
  if (!indices.valid() || !extents.valid()) return Output();
  if (indices.dtype() != DType::kInt32) indices = ops::Cast(scope, indices, DType::kInt64);
  const Output from_end = ops::Add(scope, indices, ops::Cast(scope, extents, indices.dtype()));
  return ops::Select(scope, ops::Less(scope, indices, ops::ZerosLike(scope, indices)), from_end, indices);
}

// The extents of `axes` axes from `first` on, a vector.
Output ExtentsFrom(const Scope& scope, Output x, int64_t first, int64_t axes) {
  return ops::StridedSlice(scope, ops::ShapeOf(scope, x, DType::kInt64), {first}, {AddExtents(first, axes)});
}

absl::Status Gather(Importer& to) {
  if (to.IsComputedExtents(0)) return GatherExtents(to);
  const Output x = to.In(0);
  const Tensor* const constant = to.Constant(1);
  if (!x.valid()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t axis, AxisIn(Order::kOnnx, to.Int("axis", 0), x.shape().rank()));
  const int64_t extent = x.shape()[static_cast<int>(axis)];
  std::vector<int64_t> numbers;
  if (constant != nullptr) {
    ASSIGN_OR_RETURN(numbers, to.KnownInts(1));
  }
  const bool open = extent == Shape::kUnknown && absl::c_any_of(numbers, [](int64_t number) { return number < 0; });
  if (constant == nullptr || (open && constant->shape().rank() > 0)) {
    const Output end = ops::Squeeze(to.scope(), ExtentsFrom(to.scope(), x, axis, 1), {0});
    to.Out(ops::Gather(to.scope(), x, FromFront(to.scope(), to.In(1), end), axis));
    return absl::OkStatus();
  }
  if (constant->shape().rank() == 0) {
    std::vector<int64_t> begin(static_cast<size_t>(axis) + 1, 0), end(begin.size(), ops::kSliceEnd);
    begin.back() = numbers[0];
    end.back() = numbers[0] == -1 ? ops::kSliceEnd : AddExtents(numbers[0], 1);
    const Output slice = ops::StridedSlice(to.scope(), x, begin, end);
    if (slice.valid() && extent != Shape::kUnknown && (numbers[0] < -extent || numbers[0] >= extent)) {
      return absl::InvalidArgumentError(absl::StrCat("there is no element ", numbers[0]));
    }
    to.Out(ops::Squeeze(to.scope(), slice, {axis}));
    return absl::OkStatus();
  }
  Tensor indices(DType::kInt64, constant->shape());
  for (size_t i = 0; i < numbers.size(); ++i) {
    indices.data<int64_t>()[i] = numbers[i] < 0 ? numbers[i] + extent : numbers[i];
  }
  to.Out(ops::Gather(to.scope(), x, ops::Const(to.scope(), indices), axis));
  return absl::OkStatus();
}

absl::Status GatherND(Importer& to) {
  if (to.Int("batch_dims", 0) != 0) return absl::UnimplementedError("batch_dims is not 0");
  const Output x = to.In(0), indices = to.In(1);
  if (!x.valid() || !indices.valid()) return absl::OkStatus();
  const int64_t axes = indices.shape().rank() > 0 ? indices.shape()[-1] : 0;
  if (axes < 1) return absl::UnimplementedError("the number of axes that it indexes is not known");
  const Output extents = ExtentsFrom(to.scope(), x, 0, axes);
  to.Out(ops::GatherND(to.scope(), x, FromFront(to.scope(), indices, extents)));
  return absl::OkStatus();
}

absl::Status OneHot(Importer& to) {
  ASSIGN_OR_RETURN(const double depth, to.KnownNumber(1));
  ASSIGN_OR_RETURN(const Tensor values, to.Known(2));
  if (values.elements() != 2 || !(depth >= 0 && depth < 1e9)) {
    return absl::InvalidArgumentError("its depth or its two values are wrong");
  }
  const std::vector<double> numbers = values.ToDoubles();
  const auto classes = static_cast<int64_t>(depth);
  to.Out(ops::OneHot(
      to.scope(), FromFront(to.scope(), to.In(0), ops::Const(to.scope(), classes)), classes,
      {.on_value = numbers[1], .off_value = numbers[0], .axis = to.Int("axis", -1), .dtype = values.dtype()}));
  return absl::OkStatus();
}

absl::Status ReverseSequence(Importer& to) {
  const Scope& scope = to.scope();
  const int64_t time = to.Int("time_axis", 0), batch = to.Int("batch_axis", 1);
  const Output x = to.In(0), lengths = to.In(1);
  if (!x.valid() || !lengths.valid()) return absl::OkStatus();
  const Output counts = ops::Cast(scope, lengths, DType::kInt32);
  if (time == 1 && batch == 0) return to.Out(ops::ReverseSequence(scope, x, counts)), absl::OkStatus();
  if (time != 0 || batch != 1 || x.shape().rank() < 2) return absl::InvalidArgumentError("its axes are not 0 and 1");
  std::vector<int64_t> swapped(static_cast<size_t>(x.shape().rank()));
  std::iota(swapped.begin(), swapped.end(), int64_t{0});
  std::swap(swapped[0], swapped[1]);
  const Output reversed = ops::ReverseSequence(scope, ops::Transpose(scope, x, swapped), counts);
  to.Out(ops::Transpose(scope, reversed, swapped));
  return absl::OkStatus();
}

constexpr ImportRule kParts[] = {
    {"Split", Split},
    {"Slice", Slice},
    {"Pad", Pad},
    {"Gather", Gather},
    {"GatherND", GatherND},
    {"OneHot", OneHot},
    {"ReverseSequence", ReverseSequence},
};

}  // namespace

absl::Span<const ImportRule> PartImports() { return kParts; }

}  // namespace belfry::onnx
