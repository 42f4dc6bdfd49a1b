#include <algorithm>

#include "framework/base/status.h"
#include "models/onnx/exporter_impl.h"
#include "models/onnx/permute_impl.h"
#include "ops/common/window.h"

namespace belfry::onnx {
namespace {

using std::string;

constexpr Layout kFirst = Layout::kChannelsFirst;
constexpr int64_t kFilterPerm[] = {3, 2, 0, 1};  // [R, S, C, K] to [K, C, R, S]

// The padding of SAME along one axis, before and after it; of an open extent it is known only where the stride is 1.
bool FindSamePadding(const ops::WindowAxis& axis, int64_t& low, int64_t& high) {
  low = axis.pad_low, high = axis.pad_high;
  if (axis.in != Shape::kUnknown) return true;
  const int64_t pad = (axis.window - 1) * axis.dilation;
  low = pad / 2, high = pad - pad / 2;
  return axis.stride == 1;
}

// "strides" and "pads" of a window, the latter as numbers unless they depend on an open extent.
absl::StatusOr<NodeAttributes> WindowAttributes(const Exporter& to, int64_t height, int64_t width, int64_t dilation_h,
                                                int64_t dilation_w) {
  const Shape& x = to.node().input(0).shape();
  ASSIGN_OR_RETURN(ops::Window window, ops::MakeWindow(to.attrs(), x, height, width, dilation_h, dilation_w));
  NodeAttributes attributes = {{"strides", std::vector<int64_t>{window.h.stride, window.w.stride}}};
  if (to.attrs().String("padding") == "SAME") {
    const bool known_h = FindSamePadding(window.h, window.h.pad_low, window.h.pad_high);
    const bool known_w = FindSamePadding(window.w, window.w.pad_low, window.w.pad_high);
    if (!known_h || !known_w) {
      attributes.emplace_back("auto_pad", string("SAME_UPPER"));
      return attributes;
    }
  }
  attributes.emplace_back(
      "pads", std::vector<int64_t>{window.h.pad_low, window.w.pad_low, window.h.pad_high, window.w.pad_high});
  return attributes;
}

absl::Status Conv2D(Exporter& to) {
  const Shape& filter = to.node().input(1).shape();
  if (filter[0] == Shape::kUnknown || filter[1] == Shape::kUnknown) {
    return absl::UnimplementedError("the extents of the filter are open");
  }
  const std::vector<int64_t>& dilations = to.attrs().Ints("dilations");
  ASSIGN_OR_RETURN(NodeAttributes attributes, WindowAttributes(to, filter[0], filter[1], dilations[1], dilations[2]));
  attributes.emplace_back("kernel_shape", std::vector<int64_t>{filter[0], filter[1]});
  attributes.emplace_back("dilations", std::vector<int64_t>{dilations[1], dilations[2]});
  attributes.emplace_back("group", to.attrs().Int("groups"));
  const Tensor* const constant = to.ConstantIn(1);
  const string weights =
      constant != nullptr ? to.Changed(1, Permuted(*constant, kFilterPerm)) : to.Transpose(to.In(1), kFilterPerm);
  to.Out(to.Add("Conv", {to.In(0, kFirst), weights}, attributes), kFirst);
  return absl::OkStatus();
}

// Inputs: extents of the result, filter, x.
absl::Status Conv2DTranspose(Exporter& to) {
  const Shape& filter = to.node().input(1).shape();
  const Shape &large = to.node().output(0).shape(), &small = to.node().input(2).shape();
  if (filter[0] == Shape::kUnknown || filter[1] == Shape::kUnknown) {
    return absl::UnimplementedError("the extents of the filter are open");
  }
  const std::vector<int64_t>& dilations = to.attrs().Ints("dilations");
  ASSIGN_OR_RETURN(const ops::Window window,
                   ops::MakeWindow(to.attrs(), large, filter[0], filter[1], dilations[1], dilations[2]));
  std::vector<int64_t> more;  // pixels of the result that no window begins at
  for (const auto& [axis, of] : {std::pair(1, window.h), std::pair(2, window.w)}) {
    const bool open = large[axis] == Shape::kUnknown || small[axis] == Shape::kUnknown;
    if (open && to.attrs().String("padding") == "SAME") {
      return absl::UnimplementedError("its padding is SAME, and the extents of the images are open");
    }
    const int64_t least = open ? 0 : (small[axis] - 1) * of.stride + (of.window - 1) * of.dilation + 1;
    more.push_back(open ? 0 : large[axis] - (least - of.pad_low - of.pad_high));
  }
  const Tensor* const constant = to.ConstantIn(1);
  const string weights =
      constant != nullptr ? to.Changed(1, Permuted(*constant, kFilterPerm)) : to.Transpose(to.In(1), kFilterPerm);
  to.Out(
      to.Add("ConvTranspose", {to.In(2, kFirst), weights},
             {{"strides", std::vector<int64_t>{window.h.stride, window.w.stride}},
              {"pads", std::vector<int64_t>{window.h.pad_low, window.w.pad_low, window.h.pad_high, window.w.pad_high}},
              {"output_padding", more},
              {"kernel_shape", std::vector<int64_t>{filter[0], filter[1]}},
              {"dilations", std::vector<int64_t>{dilations[1], dilations[2]}},
              {"group", to.attrs().Int("groups")}}),
      kFirst);
  return absl::OkStatus();
}

absl::Status Pool(Exporter& to) {
  const std::vector<int64_t>& size = to.attrs().Ints("ksize");
  ASSIGN_OR_RETURN(NodeAttributes attributes, WindowAttributes(to, size[1], size[2], 1, 1));
  attributes.emplace_back("kernel_shape", std::vector<int64_t>{size[1], size[2]});
  to.Out(to.Add(to.rule().onnx, {to.In(0, kFirst)}, attributes), kFirst);
  return absl::OkStatus();
}

absl::Status BatchNorm(Exporter& to) {
  const Layout layout = to.node().input(0).shape().rank() == 4 ? kFirst : Layout::kAsGiven;  // [N, C] otherwise
  to.Out(to.Add("BatchNormalization", {to.In(0, layout), to.In(1), to.In(2), to.In(3), to.In(4)},
                {{"epsilon", to.attrs().Float("epsilon")}}),
         layout);
  return absl::OkStatus();
}

absl::Status Lrn(Exporter& to) {
  if (to.node().input(0).shape().rank() != 4) return absl::UnimplementedError("its input is no image [N, H, W, C]");
  const int64_t size = 2 * to.attrs().Int("depth_radius") + 1;
  to.Out(to.Add("LRN", {to.In(0, kFirst)},
                {{"size", size},
                 {"alpha", to.attrs().Float("alpha") * static_cast<double>(size)},  // ONNX's is that of the mean
                 {"beta", to.attrs().Float("beta")},
                 {"bias", to.attrs().Float("bias")}}),
         kFirst);
  return absl::OkStatus();
}

absl::Status LayerNorm(Exporter& to) {
  const int64_t axes = to.node().input(1).shape().rank();
  to.Out(to.Add("LayerNormalization", {to.In(0), to.In(1), to.In(2)},
                {{"axis", -axes}, {"epsilon", to.attrs().Float("epsilon")}}));
  return absl::OkStatus();
}

absl::Status RmsNorm(Exporter& to) {
  std::vector<int64_t> axes;
  for (int64_t axis = -to.node().input(1).shape().rank(); axis < 0; ++axis) axes.push_back(axis);
  const string x = to.In(0);
  const string mean = to.Add("ReduceMean", {to.Add("Mul", {x, x})}, {{"axes", axes}, {"keepdims", int64_t{1}}});
  const string root = to.Add("Sqrt", {to.Add("Add", {mean, to.Number(to.attrs().Float("epsilon"))})});
  to.Out(to.Add("Mul", {to.Add("Div", {x, root}), to.In(1)}));
  return absl::OkStatus();
}

// The groups of an image as the channels of an instance norm, whose scale and offset are those of groups.
absl::Status GroupNorm(Exporter& to) {
  const Output x = to.node().input(0);
  const int rank = x.shape().rank();
  const int64_t groups = to.attrs().Int("groups");
  if (rank != 4 || x.shape()[3] == Shape::kUnknown) {
    return absl::UnimplementedError("its input is no image [N, H, W, C] of known C");
  }
  const auto repeated = [&](float value) {
    Tensor all(DType::kFloat32, {groups});
    std::fill_n(all.data<float>(), groups, value);
    return to.builder().Initializer("groups", all);
  };
  const std::vector<Dim> dims = to.DimsOf(x);
  const string parts = to.Add("Reshape", {to.In(0, kFirst), to.Ints({0, groups, -1})});
  const string normal =
      to.Add("InstanceNormalization", {parts, repeated(1), repeated(0)}, {{"epsilon", to.attrs().Float("epsilon")}});
  const string image = to.Reshape(normal, {dims[0], dims[3], dims[1], dims[2]});
  to.Out(to.Add("Add", {to.Add("Mul", {image, to.Operand(1, kFirst)}), to.Operand(2, kFirst)}), kFirst);
  return absl::OkStatus();
}

constexpr Rule kImageRules[] = {
    {"Conv2D", Conv2D},
    {"Conv2DTranspose", Conv2DTranspose},
    {"MaxPool", Pool, "MaxPool", true},
    {"AvgPool", Pool, "AveragePool"},
    {"BatchNormInference", BatchNorm},
    {"LRN", Lrn},
    {"LayerNorm", LayerNorm},
    {"RmsNorm", RmsNorm, "", false, true},
    {"GroupNorm", GroupNorm, "", false, true},
};

}  // namespace

absl::Span<const Rule> ImageRules() { return kImageRules; }

}  // namespace belfry::onnx
