#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/import/importer_impl.h"
#include "ops/array.h"
#include "ops/nn.h"

namespace belfry::onnx {
namespace {

constexpr int64_t kFilterPerm[] = {2, 3, 1, 0};       // [K, C, R, S] to [R, S, C, K]
constexpr int64_t kSequenceFilterPerm[] = {2, 1, 0};  // [K, C, R] to [R, C, K]
constexpr int64_t kMaxWindow = int64_t{1} << 30;      // of extents, strides and paddings, so that sums fit

// A window along one axis.
struct WindowAxis {
  int64_t size = 1, stride = 1, dilation = 1, low = 0, high = 0;
};

// A window over images, of which sequences have a height of 1.
struct ImportedWindow {
  WindowAxis h, w;
  ops::Padding padding;
};

absl::Status CheckAxis(const WindowAxis& axis) {
  for (const int64_t number : {axis.size, axis.stride, axis.dilation}) {
    if (number < 1 || number > kMaxWindow) return absl::InvalidArgumentError("its window has an extent out of range");
  }
  for (const int64_t number : {axis.low, axis.high}) {
    if (number < 0 || number > kMaxWindow) return absl::UnimplementedError("its window has negative pads");
  }
  return absl::OkStatus();
}

// The padding that gives ceil(in / stride) results, of which the odd element is before the image. True if it is known.
bool SetSameLower(WindowAxis& axis, int64_t in) {
  const int64_t reach = (axis.size - 1) * axis.dilation + 1;
  if (in == Shape::kUnknown && axis.stride != 1) return false;
  const int64_t out = in == Shape::kUnknown ? 1 : (in + axis.stride - 1) / axis.stride;
  const int64_t pad = std::max(int64_t{0}, in == Shape::kUnknown ? reach - 1 : (out - 1) * axis.stride + reach - in);
  axis.high = pad / 2;
  axis.low = pad - axis.high;
  return true;
}

// More padding behind the image, where ceil_mode rounds up: a window that begins there is left out.
absl::Status SetCeiling(WindowAxis& axis, int64_t in) {
  if (axis.stride == 1) return absl::OkStatus();
  if (in == Shape::kUnknown) return absl::UnimplementedError("ceil_mode of an open extent is not covered");
  const int64_t rest = in + axis.low + axis.high - axis.size;
  if (rest < 0) return absl::OkStatus();
  int64_t out = (rest + axis.stride - 1) / axis.stride + 1;
  if ((out - 1) * axis.stride >= in + axis.low) --out;
  axis.high = std::max(axis.high, (out - 1) * axis.stride + axis.size - in - axis.low);
  return absl::OkStatus();
}

// `size` [spatial axes] is that of the window. The images are ours.
absl::StatusOr<ImportedWindow> WindowOf(Importer& to, const std::vector<int64_t>& size, const Shape& images) {
  const size_t n = size.size();
  const auto numbers = [&](absl::string_view name, int64_t otherwise, size_t count) {
    std::vector<int64_t> list = to.Ints(name);
    if (list.empty()) list.assign(count, otherwise);
    return list;
  };
  const std::vector<int64_t> strides = numbers("strides", 1, n), dilations = numbers("dilations", 1, n),
                             pads = numbers("pads", 0, 2 * n);
  if (n < 1 || n > 2 || strides.size() != n || dilations.size() != n || pads.size() != 2 * n) {
    return absl::InvalidArgumentError("its kernel_shape, strides, dilations and pads do not fit to each other");
  }
  if (static_cast<int>(n) != to.ShapeOf(0).rank() - 2) {
    return absl::InvalidArgumentError("its window does not have the axes of its input");
  }
  ImportedWindow window;
  for (size_t i = 0; i < n; ++i) {
    WindowAxis& axis = i + 1 == n ? window.w : window.h;
    axis = {size[i], strides[i], dilations[i], pads[i], pads[n + i]};
    RETURN_IF_ERROR(CheckAxis(axis));
  }
  const std::string mode = to.String("auto_pad", "NOTSET");
  if (mode == "SAME_UPPER" || mode == "VALID") {
    window.padding = mode == "VALID" ? ops::Padding::Valid() : ops::Padding::Same();
    return window;
  }
  if (mode == "SAME_LOWER") {
    if (!SetSameLower(window.h, images[1]) || !SetSameLower(window.w, images[2])) {
      return absl::UnimplementedError("SAME_LOWER of an open extent is not covered");
    }
  } else if (mode != "NOTSET" && !mode.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("auto_pad is '", mode, "'"));
  }
  if (to.Int("ceil_mode", 0) != 0) {
    RETURN_IF_ERROR(SetCeiling(window.h, images[1]));
    RETURN_IF_ERROR(SetCeiling(window.w, images[2]));
  }
  window.padding = ops::Padding::Explicit(window.h.low, window.h.high, window.w.low, window.w.high);
  return window;
}

// Input 1 as our filter [R, S, C / groups, K] of images of this rank.
Output FilterOf(Importer& to, int rank) {
  if (rank == 4) return to.Parameter(1, kFilterPerm);
  return ops::ExpandDims(to.scope(), to.Parameter(1, kSequenceFilterPerm), 0);
}

Output WithBias(Importer& to, Output y) { return to.Has(2) ? ops::BiasAdd(to.scope(), y, to.In(2)) : y; }

absl::StatusOr<std::pair<ImportedWindow, ops::Conv2DOptions>> ConvolutionOf(Importer& to, const Output& x,
                                                                            const Output& filter, int rank) {
  std::vector<int64_t> size = {filter.shape()[0], filter.shape()[1]};
  if (rank == 3) size.erase(size.begin());
  ASSIGN_OR_RETURN(const ImportedWindow window, WindowOf(to, size, x.shape()));
  return std::pair(window, ops::Conv2DOptions{.stride_h = window.h.stride,
                                              .stride_w = window.w.stride,
                                              .padding = window.padding,
                                              .dilation_h = window.h.dilation,
                                              .dilation_w = window.w.dilation,
                                              .groups = to.Int("group", 1)});
}

absl::Status Conv(Importer& to) {
  const int rank = to.ShapeOf(0).rank();
  ASSIGN_OR_RETURN(const Output x, to.Images(0));
  const Output filter = FilterOf(to, rank);
  if (!x.valid() || !filter.valid()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto convolution, ConvolutionOf(to, x, filter, rank));
  to.OutImages(WithBias(to, ops::Conv2D(to.scope(), x, filter, convolution.second)), rank);
  return absl::OkStatus();
}

absl::Status ConvTranspose(Importer& to) {
  const int rank = to.ShapeOf(0).rank();
  ASSIGN_OR_RETURN(const Output x, to.Images(0));
  const Output filter = FilterOf(to, rank);
  if (!x.valid() || !filter.valid()) return absl::OkStatus();
  if (to.Attribute("output_shape") != nullptr || to.String("auto_pad", "NOTSET") != "NOTSET") {
    return absl::UnimplementedError("output_shape and auto_pad are not covered");
  }
  ASSIGN_OR_RETURN(const auto convolution, ConvolutionOf(to, x, filter, rank));
  std::vector<int64_t> more = to.Ints("output_padding");
  more.resize(static_cast<size_t>(rank) - 2, 0);
  for (const int64_t added : more) {
    if (added < 0 || added > kMaxWindow) return absl::InvalidArgumentError("its output_padding is out of range");
  }
  const auto extent = [&](int axis, const WindowAxis& window, int64_t added) {
    const int64_t reach = (window.size - 1) * window.dilation + 1;
    const int64_t offset = reach - window.stride - window.low - window.high + added;
    const int64_t size = x.shape()[axis];
    const ops::Extent in = size == Shape::kUnknown ? ops::Extent::Of(x, axis) : ops::Extent(size);
    return in * window.stride + offset;
  };
  ops::ImageExtents extents;
  const ImportedWindow& window = convolution.first;
  extents.width = extent(2, window.w, more.back());
  extents.height = rank == 4 ? extent(1, window.h, more[0]) : ops::Extent(1);
  to.OutImages(WithBias(to, ops::Conv2DTranspose(to.scope(), x, filter, convolution.second, extents)), rank);
  return absl::OkStatus();
}

absl::Status Pool(Importer& to) {
  const int rank = to.ShapeOf(0).rank();
  if (to.IsUsed(1)) return absl::UnimplementedError("its indices are read");
  ASSIGN_OR_RETURN(Output x, to.Images(0));
  if (!x.valid()) return absl::OkStatus();
  ASSIGN_OR_RETURN(ImportedWindow window, WindowOf(to, to.Ints("kernel_shape"), x.shape()));
  if (window.h.dilation != 1 || window.w.dilation != 1) return absl::UnimplementedError("dilations are not covered");
  const bool average = to.rule().op == "AveragePool";
  const std::vector<int64_t> pads = to.Ints("pads");
  const bool padded = std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; });
  const bool counts_padding = average && to.Int("count_include_pad", 0) != 0;
  const std::string mode = to.String("auto_pad", "NOTSET");
  if (counts_padding && mode != "NOTSET" && mode != "VALID") {
    return absl::UnimplementedError("count_include_pad with auto_pad is not covered");
  }
  if (counts_padding && mode == "NOTSET" && padded) {
    const size_t n = pads.size() / 2;  // the zeros count, but not those that ceil_mode adds
    const int64_t top = n == 2 ? pads[0] : 0, bottom = n == 2 ? pads[2] : 0;
    const int64_t left = pads[n - 1], right = pads[2 * n - 1];
    x = ops::Pad(to.scope(), x, {{0, 0}, {top, bottom}, {left, right}, {0, 0}});
    window.padding = ops::Padding::Explicit(0, window.h.high - bottom, 0, window.w.high - right);
  }
  const ops::PoolOptions options = {.height = window.h.size,
                                    .width = window.w.size,
                                    .stride_h = window.h.stride,
                                    .stride_w = window.w.stride,
                                    .padding = window.padding};
  to.OutImages(average ? ops::AvgPool(to.scope(), x, options) : ops::MaxPool(to.scope(), x, options), rank);
  return absl::OkStatus();
}

absl::Status GlobalPool(Importer& to) {
  const int rank = to.ShapeOf(0).rank();
  ASSIGN_OR_RETURN(const Output x, to.Images(0));
  const bool average = to.rule().op == "GlobalAveragePool";
  to.OutImages(average ? ops::GlobalAvgPool(to.scope(), x, true) : ops::GlobalMaxPool(to.scope(), x, true), rank);
  return absl::OkStatus();
}

// The extents of the result, by whole factors or, where x is known, by sizes.
absl::StatusOr<std::vector<ops::Extent>> ResizedExtents(Importer& to, const Output& x, int scales_at, int sizes_at,
                                                        bool& whole) {
  std::vector<ops::Extent> extents;
  whole = true;
  for (int axis = 0; axis < 4; ++axis) {
    const auto at = static_cast<size_t>(axis);
    const int64_t in = to.ShapeOf(0)[axis];
    int64_t size = 0;
    if (to.Has(sizes_at)) {
      ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, to.KnownInts(sizes_at));
      if (sizes.size() != 4) return absl::UnimplementedError("its sizes are not those of images");
      size = sizes[at];
    } else {
      ASSIGN_OR_RETURN(const Tensor scales, to.Known(scales_at));
      if (scales.elements() != 4) return absl::UnimplementedError("its scales are not those of images");
      const double scale = scales.ToDoubles()[at];
      if (!(scale > 0 && scale < 1e6)) return absl::InvalidArgumentError("a scale is out of range");
      if (scale == std::floor(scale)) {
        if (axis >= 2) extents.push_back(ops::Extent::Of(x, axis - 1) * static_cast<int64_t>(scale));
        if (axis < 2 && scale != 1) return absl::UnimplementedError("it resizes more than height and width");
        continue;
      }
      if (in == Shape::kUnknown) return absl::UnimplementedError("its scale of an open extent is no whole number");
      if (in > kMaxWindow) return absl::InvalidArgumentError("its images are too large");
      const double scaled = static_cast<double>(in) * scale;
      // ONNX divides positions by the scale, and ours by the ratio of the sizes, which then differs.
      if (scaled != std::floor(scaled)) return absl::UnimplementedError("its scale makes no whole number of pixels");
      size = static_cast<int64_t>(scaled);
    }
    if (size < 0) return absl::InvalidArgumentError("a size is negative");
    if (axis < 2 && in != Shape::kUnknown && in != size) {
      return absl::UnimplementedError("it resizes more than height and width");
    }
    whole = whole && (axis < 2 || (in > 0 && size % in == 0));
    if (axis >= 2) extents.emplace_back(size);
  }
  return extents;
}

absl::Status Resize(Importer& to) {
  if (to.ShapeOf(0).rank() != 4) return absl::UnimplementedError("its input is no image");
  const bool upsample = to.rule().op == "Upsample" || to.opset() < 11;
  const std::string mode = to.String("mode", "nearest"),
                    from = to.String("coordinate_transformation_mode", "half_pixel");
  const Output x = to.In(0, Order::kChannelsLast);
  if (!x.valid()) return absl::OkStatus();
  bool whole = false;
  ASSIGN_OR_RETURN(const std::vector<ops::Extent> extents,
                   ResizedExtents(to, x, upsample ? 1 : 2, upsample ? -1 : 3, whole));
  const std::string nearest = to.String("nearest_mode", "round_prefer_floor");
  if (to.String("keep_aspect_ratio_policy", "stretch") != "stretch" || to.Int("exclude_outside", 0) != 0 ||
      !to.Ints("axes").empty()) {
    return absl::UnimplementedError("keep_aspect_ratio_policy, exclude_outside and axes are not covered");
  }
  const bool centres = !upsample && (from == "half_pixel" || from == "pytorch_half_pixel");
  // A whole factor puts no centre halfway between two pixels, so either rounding takes the same one.
  const bool of_centre = centres && (nearest == "round_prefer_floor" || nearest == "round_prefer_ceil");
  const bool of_corner = upsample || (from == "asymmetric" && nearest == "floor");
  if (mode == "nearest" && whole && (of_centre || of_corner)) {
    to.Out(ops::ResizeNearest(to.scope(), x, extents[0], extents[1]), Order::kChannelsLast);
  } else if ((mode == "linear" || mode == "bilinear") && centres && to.Int("antialias", 0) == 0) {
    const Output y = ops::ResizeBilinear(to.scope(), x, extents[0], extents[1]);
    if (from == "pytorch_half_pixel" && y.valid() && (y.shape()[1] == 1 || y.shape()[2] == 1)) {
      return absl::UnimplementedError("coordinates 'pytorch_half_pixel' are not covered for one row or column");
    }
    to.Out(y, Order::kChannelsLast);
  } else {
    return absl::UnimplementedError(absl::StrCat("mode '", mode, "' with coordinates '", from, "' and nearest_mode '",
                                                 nearest, "', or its factors, are not covered"));
  }
  return absl::OkStatus();
}

constexpr ImportRule kImages[] = {
    {"Conv", Conv},
    {"ConvTranspose", ConvTranspose},
    {"MaxPool", Pool},
    {"AveragePool", Pool},
    {"GlobalAveragePool", GlobalPool},
    {"GlobalMaxPool", GlobalPool},
    {"Resize", Resize},
    {"Upsample", Resize},
};

}  // namespace

absl::Span<const ImportRule> ImageImports() { return kImages; }

}  // namespace belfry::onnx
