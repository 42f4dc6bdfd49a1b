#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/exporter_impl.h"

namespace belfry::onnx {
namespace {

using std::string;

constexpr int64_t kFarEnd = std::numeric_limits<int64_t>::max();

int RankOf(const Exporter& to, int i = 0) { return to.node().input(i).shape().rank(); }

// `axis`, counted from the front, of a tensor of `rank` axes.
int64_t FromFront(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }
int64_t AxisIn(Layout layout, int64_t axis) {
  return layout == Layout::kChannelsFirst ? kChannelsFirstAxis[axis] : axis;
}

absl::Status Reshape(Exporter& to) {
  std::vector<Dim> dims;
  for (const int64_t extent : to.attrs().Get<Shape>("shape").dims()) dims.push_back({extent});
  to.Out(to.Reshape(to.In(0), dims));
  return absl::OkStatus();
}

absl::Status ReshapeTo(Exporter& to) {
  std::vector<Dim> dims = to.CarriedBy(to.node().input(1));
  const int64_t inferred = to.attrs().Int("inferred");
  if (inferred >= 0) dims[static_cast<size_t>(inferred)] = {};
  to.Out(to.Reshape(to.In(0), dims));
  return absl::OkStatus();
}

absl::Status ReshapeLike(Exporter& to) {
  to.Out(to.Reshape(to.In(0), to.DimsOf(to.node().input(1))));
  return absl::OkStatus();
}

absl::Status MergeAxes(Exporter& to) {
  const Output x = to.node().input(0);
  const int64_t first = FromFront(to.attrs().Int("first"), RankOf(to)),
                last = FromFront(to.attrs().Int("last"), RankOf(to));
  std::vector<Dim> dims;
  for (int axis = 0; axis < RankOf(to); ++axis) {
    if (axis == last) dims.push_back({});
    if (axis < first || axis > last) dims.push_back(to.DimOf(x, axis));
  }
  to.Out(to.Reshape(to.In(0), dims));
  return absl::OkStatus();
}

absl::Status ExpandDims(Exporter& to) {
  to.Out(to.Add("Unsqueeze", {to.In(0), to.Ints({to.attrs().Int("axis")})}));
  return absl::OkStatus();
}

absl::Status Squeeze(Exporter& to) {
  std::vector<int64_t> axes = to.attrs().Ints("axes");
  const Shape& x = to.node().input(0).shape();
  for (int axis = 0; to.attrs().Ints("axes").empty() && axis < x.rank(); ++axis) {
    if (x[axis] == 1) axes.push_back(axis);
  }
  if (axes.empty()) {
    to.SameAsInput();
  } else {
    to.Out(to.Add("Squeeze", {to.In(0), to.Ints(axes)}));
  }
  return absl::OkStatus();
}

// Attributes: see ops/copy/extents.cc.
absl::Status Extents(Exporter& to) {
  const Attrs& attrs = to.attrs();
  const std::vector<int64_t>& sizes = attrs.Ints("sizes");
  std::vector<Dim> dims;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] >= 0) {
      dims.push_back({sizes[i]});
      continue;
    }
    const Output from = to.node().input(static_cast<int>(attrs.Ints("inputs")[i]));
    const int64_t axis = FromFront(attrs.Ints("axes")[i], from.shape().rank());
    const bool of_carrier = from.node->op().name == to.node().op().name;
    Dim dim = of_carrier ? to.CarriedBy(from)[static_cast<size_t>(axis)] : to.DimOf(from, static_cast<int>(axis));
    const int64_t factor = attrs.Ints("factors")[i], offset = attrs.Ints("offsets")[i],
                  divisor = attrs.Ints("divisors")[i];
    const auto apply = [&](const char* op, int64_t number, int64_t neutral) {
      if (number != neutral) dim = {-1, to.Add(op, {to.NameOf(dim), to.Ints({number})})};
    };
    apply("Mul", factor, 1);
    apply("Add", offset, 0);
    apply("Div", divisor, 1);
    dims.push_back(dim);
  }
  to.SetCarried(std::move(dims));
  return absl::OkStatus();
}

absl::Status ShapeOf(Exporter& to) {
  const string shape = to.ShapeTensor(to.DimsOf(to.node().input(0)));
  to.Out(to.node().output(0).dtype() == DType::kInt64 ? shape : to.CastTo(shape, DType::kInt32));
  return absl::OkStatus();
}

absl::Status FilledLike(Exporter& to, double value) {
  to.Out(to.Add("Expand", {to.Number(value), to.ShapeTensor(to.DimsOf(to.node().input(0)))}));
  return absl::OkStatus();
}
absl::Status ZerosLike(Exporter& to) { return FilledLike(to, 0); }
absl::Status OnesLike(Exporter& to) { return FilledLike(to, 1); }

absl::Status BroadcastTo(Exporter& to) {
  std::vector<int64_t> extents;
  for (const int64_t extent : to.attrs().Get<Shape>("shape").dims()) {
    extents.push_back(extent == Shape::kUnknown ? 1 : extent);  // an extent of 1 keeps that of x
  }
  to.Out(to.Add("Expand", {to.In(0), to.Ints(extents)}));
  return absl::OkStatus();
}

absl::Status BroadcastLike(Exporter& to) {
  to.Out(to.Add("Expand", {to.In(0), to.ShapeTensor(to.DimsOf(to.node().input(1)))}));
  return absl::OkStatus();
}

absl::Status Tile(Exporter& to) {
  to.Out(to.Add("Tile", {to.In(0), to.Ints(to.attrs().Ints("multiples"))}));
  return absl::OkStatus();
}

absl::Status Transpose(Exporter& to) {
  std::vector<int64_t> perm = to.attrs().Ints("perm");
  for (int64_t& axis : perm) axis = FromFront(axis, RankOf(to));
  for (int64_t axis = RankOf(to) - 1; to.attrs().Ints("perm").empty() && axis >= 0; --axis) perm.push_back(axis);
  to.Out(to.Transpose(to.In(0), perm));
  return absl::OkStatus();
}

absl::Status Concat(Exporter& to) {
  const Layout layout = to.ResultLayout();
  std::vector<string> parts;
  for (int i = 0; i < static_cast<int>(to.node().inputs().size()); ++i) parts.push_back(to.In(i, layout));
  const int64_t axis = AxisIn(layout, FromFront(to.attrs().Int("axis"), RankOf(to)));
  to.Out(to.Add("Concat", parts, {{"axis", axis}}), layout);
  return absl::OkStatus();
}

absl::Status Stack(Exporter& to) {
  const int64_t axis = FromFront(to.attrs().Int("axis"), RankOf(to) + 1);
  std::vector<string> parts;
  for (int i = 0; i < static_cast<int>(to.node().inputs().size()); ++i) {
    parts.push_back(to.Add("Unsqueeze", {to.In(i), to.Ints({axis})}));
  }
  to.Out(to.Add("Concat", parts, {{"axis", axis}}));
  return absl::OkStatus();
}

absl::Status Split(Exporter& to) {
  const int axis = static_cast<int>(FromFront(to.attrs().Int("axis"), RankOf(to)));
  const auto outputs = static_cast<int>(to.node().outputs().size());
  std::vector<string> inputs = {to.In(0)};
  if (!to.attrs().Ints("sizes").empty()) {
    std::vector<int64_t> sizes;
    for (const TensorSpec& output : to.node().outputs()) sizes.push_back(output.shape[axis]);
    if (std::find(sizes.begin(), sizes.end(), Shape::kUnknown) != sizes.end()) {
      return absl::UnimplementedError("a part of an open extent is the remainder");
    }
    inputs.push_back(to.Ints(sizes));
  }
  const std::vector<string> parts = to.builder().AddAll("Split", inputs, outputs, {{"axis", int64_t{axis}}});
  for (int i = 0; i < outputs; ++i) to.Out(parts[static_cast<size_t>(i)], Layout::kAsGiven, i);
  return absl::OkStatus();
}

absl::Status Unstack(Exporter& to) {
  const int64_t axis = FromFront(to.attrs().Int("axis"), RankOf(to));
  for (int i = 0; i < static_cast<int>(to.node().outputs().size()); ++i) {
    const string index = to.builder().Number(i, DType::kInt64);
    to.Out(to.Add("Gather", {to.In(0), index}, {{"axis", axis}}), Layout::kAsGiven, i);
  }
  return absl::OkStatus();
}

// x[begin:end:stride] for the leading axes, as ONNX has it in axes of any order.
void WriteSlice(Exporter& to, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
                const std::vector<int64_t>& strides) {
  const Layout layout = to.ResultLayout();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < begin.size(); ++i) axes.push_back(AxisIn(layout, static_cast<int64_t>(i)));
  std::vector<string> inputs = {to.In(0, layout), to.Ints(begin), to.Ints(end), to.Ints(axes)};
  if (!strides.empty()) inputs.push_back(to.Ints(strides));
  to.Out(begin.empty() ? inputs[0] : to.Add("Slice", inputs), layout);
}

absl::Status Slice(Exporter& to) {
  const std::vector<int64_t>&begin = to.attrs().Ints("begin"), &size = to.attrs().Ints("size");
  std::vector<int64_t> end;
  for (size_t i = 0; i < begin.size(); ++i) end.push_back(size[i] < 0 ? kFarEnd : begin[i] + size[i]);
  WriteSlice(to, begin, end, {});
  return absl::OkStatus();
}

absl::Status StridedSlice(Exporter& to) {
  WriteSlice(to, to.attrs().Ints("begin"), to.attrs().Ints("end"), to.attrs().Ints("strides"));
  return absl::OkStatus();
}

absl::Status Pad(Exporter& to) {
  const Layout layout = to.ResultLayout();
  const auto rank = static_cast<size_t>(RankOf(to));
  const std::vector<int64_t>& paddings = to.attrs().Ints("paddings");
  std::vector<int64_t> pads(2 * rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    const auto at = static_cast<size_t>(AxisIn(layout, static_cast<int64_t>(axis)));
    pads[at] = paddings[2 * axis];
    pads[rank + at] = paddings[2 * axis + 1];
  }
  to.Out(to.Add("Pad", {to.In(0, layout), to.Ints(pads), to.Number(to.attrs().Float("value"))}), layout);
  return absl::OkStatus();
}

absl::Status Gather(Exporter& to) {
  const int64_t axis = FromFront(to.attrs().Int("axis"), RankOf(to));
  to.Out(to.Add("Gather", {to.In(0), to.In(1)}, {{"axis", axis}}));
  return absl::OkStatus();
}

constexpr Rule kArrayRules[] = {
    {"Reshape", Reshape, "", true},
    {"ReshapeTo", ReshapeTo, "", true},
    {"ReshapeLike", ReshapeLike, "", true},
    {"MergeAxes", MergeAxes, "", true},
    {"ExpandDims", ExpandDims, "", true},
    {"Squeeze", Squeeze, "", true},
    {"Extents", Extents},
    {"Shape", ShapeOf},
    {"ZerosLike", ZerosLike, "", true},
    {"OnesLike", OnesLike, "", true},
    {"BroadcastTo", BroadcastTo, "", true},
    {"BroadcastLike", BroadcastLike, "", true},
    {"Tile", Tile, "", true},
    {"Transpose", Transpose, "", true},
    {"Concat", Concat, "", true},
    {"Stack", Stack, "", true},
    {"Split", Split, "", true},
    {"Unstack", Unstack, "", true},
    {"Slice", Slice, "", true},
    {"StridedSlice", StridedSlice, "", true},
    {"Pad", Pad},
    {"Gather", Gather, "", true},
};

}  // namespace

absl::Span<const Rule> ArrayRules() { return kArrayRules; }

}  // namespace belfry::onnx
